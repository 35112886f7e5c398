"""Writes docs/experiments.md and its pictures from a finished run of the lab: ``make experiments``."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from everhold_lab.experiments import EXPERIMENTS

DOCS = Path(__file__).parent
IMAGES = DOCS / "images" / "lab"
SHOWN = {
    "figure2": ("figure2-common-reuse",),
    "figure3": ("figure3-accuracy-groups-of-50", "figure3-error-shares"),
    "dwork2015": ("dwork2015-dwork2015-no-signal", "dwork2015-dwork2015-signal"),
    "ladder-attack": ("ladder-attack-boosting",),
    "widths": ("widths-promised-by-queries", "widths-seen-by-queries"),
    "dependence": ("dependence-radius-groups", "dependence-radius-order"),
    "gates": (),
    "sharpness": (),
    "tuning-loop": (),
    "leaderboard": (),
    "sealed-search": ("sealed-search-sealed-search-at-take-off",),
}
"""The pictures on the page; the others are in the report of a run."""

HEAD = """# Experiments

This page has the results of published and new experiments, as `everhold lab run all` runs them, with the defaults of
every experiment and seed {seed}. It was made by `make experiments` on {date} with everhold {version}: {machine}. A
*finding* is an expectation that was written down before the run, with the numbers of the run. *As expected* means that
the measured rows meet the expectation. [The lab](guides/lab.md) explains how to run and add experiments.
"""


def main(output: Path) -> None:
    """Read the documents of all experiments that were played, in order, and write the page."""
    played = [path for name in EXPERIMENTS if (path := output / f"{name}.json").exists()]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in played]
    first = documents[0]
    head = HEAD.format(
        seed=first["seed"], date=f"{datetime.now(UTC):%Y-%m-%d}", version=first["everhold"], machine=first["machine"]
    )
    IMAGES.mkdir(parents=True, exist_ok=True)
    (DOCS / "experiments.md").write_text(
        "\n".join([head, _table(documents), *(_part(document, output) for document in documents)]), encoding="utf-8"
    )


def _table(documents: list[dict[str, Any]]) -> str:
    lines = ["| experiment | source | repetitions | findings kept |", "| --- | --- | ---: | ---: |"]
    for document in documents:
        kept = [line["kept"] for line in document["findings"]]
        source = document["source"].partition(";")[0]
        lines.append(f"| {document['title']} | {source} | {document['repetitions']} | {sum(kept)} of {len(kept)} |")
    return "\n".join(lines) + "\n"


def _part(document: dict[str, Any], output: Path) -> str:
    findings = "\n\n".join(
        f"- **{'as expected' if line['kept'] else 'NOT as expected'}**: {line['finding']}"
        for line in document["findings"]
    )
    wanted = SHOWN[document["experiment"]]
    pictures = "\n\n".join(
        _picture(picture, output) for picture in document["pictures"] if Path(picture["file"]).stem in wanted
    )
    facts = f"{document['repetitions']} repetitions, {document['seconds']:,.0f} seconds of computing."
    about = f"*{document['source']}.* {document['about']}"
    return "\n\n".join([f"## {document['title']}", about, findings, pictures, facts]) + "\n"


def _picture(picture: dict[str, str], output: Path) -> str:
    shutil.copyfile(output / picture["file"], IMAGES / picture["file"])
    return f"![{picture['title']}](images/lab/{picture['file']})\n\n*{picture['title']}.* {picture['caption']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
