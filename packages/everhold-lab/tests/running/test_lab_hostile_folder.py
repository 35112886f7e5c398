"""A folder of results in which others have written: a run goes on, and its report shows and runs nothing of theirs."""

import json

import pytest
from lab_experiments import Coins, Dice

from everhold_lab.running import run, write_report

DOCUMENT = {
    "experiment": "evil", "title": "<script>a</script>", "source": "<b>", "about": "</p><img src=x>",
    "parameters": {"<i>": "<u>"}, "repetitions": 1, "seed": 0, "seconds": 1.0, "machine": "<m>", "everhold": "<v>",
    "findings": [{"finding": "<f>", "kept": True}], "pictures": [], "rows": [{"<col>": "<val>"}],
}  # fmt: skip
WRONG = [
    ("repetitions", "x"), ("seconds", None), ("findings", 3), ("findings", [1]), ("pictures", [{}]), ("pictures", 5),
    ("rows", [1]), ("parameters", []),
]  # fmt: skip


def put(folder, name="evil", **changes):
    (folder / f"{name}.json").write_text(json.dumps({**DOCUMENT, "experiment": name, **changes}))


def test_what_others_wrote_is_shown_as_text_only(tmp_path):
    put(tmp_path, 'e"><script>')
    page = write_report(tmp_path).read_text()
    assert not [
        tag for tag in ("<script", "<b>", "<img", "<i>", "<u>", "<m>", "<v>", "<f>", "<col>", "<val>") if tag in page
    ]


@pytest.mark.parametrize("place", ["../secret.svg", "{folder}/secret.svg", "secret.txt"])
def test_a_picture_is_a_picture_of_the_folder(tmp_path, place):
    (tmp_path / "secret.svg").write_text("CANARY")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "secret.txt").write_text("CANARY")
    put(inner, pictures=[{"title": "t", "caption": "c", "file": place.format(folder=tmp_path)}])
    assert "CANARY" not in write_report(inner).read_text()


def test_nothing_in_a_picture_runs(tmp_path):
    put(tmp_path, pictures=[{"title": "t", "caption": "c", "file": "p.svg"}])
    (tmp_path / "p.svg").write_text('<svg onload="alert(1)"></svg>')
    page = write_report(tmp_path).read_text()
    assert page.index("default-src 'none'; style-src 'unsafe-inline'\"") < page.index("<svg")


def test_documents_of_another_shape_end_no_run(tmp_path):
    for number, (field, value) in enumerate(WRONG):
        put(tmp_path, f"w{number}", **{field: value})
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "folder.json").mkdir()
    run(Coins(), tmp_path, jobs=1, repetitions=1)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<section") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"setting": [0]},
        {"setting": None},
        {"seed": "7"},
        {"seconds": "1"},
        {"rows": 5},
        {"rows": [1]},
        {"repetition": 0.0},
    ],
)
def test_a_line_of_another_shape_is_played_again(tmp_path, change):
    first = run(Dice(), tmp_path, jobs=1, repetitions=1)
    (file,) = (tmp_path / "checkpoints").iterdir()
    whole = file.read_text().splitlines()
    spoilt = json.dumps({**json.loads(whole[0]), **change})
    file.write_text("\n".join([*whole[1:], spoilt, "[" * 100_000]) + "\n")
    again = run(Dice(), tmp_path, jobs=1, repetitions=1)
    assert repr(again.rows) == repr(first.rows)
