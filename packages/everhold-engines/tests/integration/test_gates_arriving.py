"""Gates and predictions where rows arrive in a table of an engine: as in files, whatever the ids are."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pond_samples import poured as poured_into_pond
from pond_samples import served, tried_before
from test_watermark import JULY, JUNE, MAY, Arriving, flights
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.errors import QueryRejected
from everhold_engines import ENGINE_VARIABLE

__all__ = ["tried_before"]

COUNTS = (400, 300, 200)
SEALED = ("sealed", "sealed_low", "sealed_high")


def windows():
    """Rows of three months, whose ids say nothing of when they arrived."""
    ids = np.random.default_rng(6).permutation(sum(COUNTS))
    starts = np.cumsum((0, *COUNTS[:-1]))
    return [
        flights(count, seed, days).assign(id=np.sort(ids[start : start + count]))
        for seed, (count, start, days) in enumerate(zip(COUNTS, starts, (MAY, JUNE, JULY), strict=True), 1)
    ]


def guesses(frame, share, seed):
    """Predictions with ids, of which such a share is right."""
    right = np.random.default_rng(seed).random(len(frame)) < share
    return pd.DataFrame({"id": frame["id"], "prediction": np.where(right, frame["late"], 1 - frame["late"])})


def created(folder, table, **more):
    given = {"rows": eh.Rows(row_id="id", features="public"), "training": flights(300, 90), **more}
    planning = eh.Planning(grows=True, allow_vacuous=True)
    return eh.Holdout.create(
        folder / "s.db", "flights", holdout=table, label="late", queries=60, surprises=4, planning=planning, **given
    )


def pond_of(folder, rows):
    return Arriving(poured_into_pond(folder / "pond.db", "flights", rows).file, "flights")


def played(folder, table, may, append):
    """Promotions of challengers after rows arrived, and the sealed results after unsealing."""
    _, june, _ = windows()
    both = pd.concat([may, june])
    with created(folder, table) as holdout:
        known = holdout.gate("accuracy", champion=guesses(may, 0.7, 1), name="known")
        rule = holdout.gate("accuracy", champion="delay > 0", name="rule")
        holdout.append(**append)
        before = holdout.status()
        with pytest.raises(QueryRejected, match=r"no values for 300 rows"):
            known.challenge(guesses(both, 0.9, 3))
        assert holdout.status() == before
        known.complete(guesses(june, 0.7, 2).sample(frac=1.0, random_state=0))
        rule.complete("delay > 0")
        found = [gate.challenge(guesses(both, 0.9, 3)).promoted for gate in (known, rule)]
        holdout.ask(eh.accuracy(guesses(both, 0.8, 4)["prediction"].to_numpy()), guess=0.1)
        return found, [[row[name] for name in SEALED] for row in holdout.unseal().to_rows()]


def test_gates_and_predictions_are_those_of_files(tmp_path, monkeypatch):
    served(monkeypatch)
    may, june, july = windows()
    for folder in ("engine", "file"):
        (tmp_path / folder).mkdir()
    pond = pond_of(tmp_path, pd.concat([july, june, may])).arriving_by("day", "2026-06-01")
    expected = played(tmp_path / "file", may, may, {"rows": june})
    assert played(tmp_path / "engine", pond, may, {"until": "2026-07-01"}) == expected
    assert expected[0] == [True, True]


def test_in_every_engine_rows_are_in_the_order_of_their_arrival(tmp_path, poured):
    may, june, july = windows()
    both = pd.concat([may, june])
    engine = poured(pa.Table.from_pandas(pd.concat([july, june, may]), preserve_index=False).to_pydict())
    with created(tmp_path, engine.arriving_by("day", "2026-06-01")) as holdout:
        holdout.append(until="2026-07-01")
        given = guesses(both, 0.8, 4)["prediction"].to_numpy()
        told = holdout.ask(eh.accuracy(given), guess=0.1)
    assert told.value == pytest.approx((given == both["late"].to_numpy()).mean(), abs=0.02)


def test_the_command_line_completes_a_champion_of_a_table(tmp_path, monkeypatch):
    served(monkeypatch)
    may, june, _ = windows()
    pond = pond_of(tmp_path, pd.concat([june, may]))
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://{pond.file}")
    monkeypatch.setattr("pond_samples.Pond.from_url", lambda url, table: Arriving(pond.file, table))
    with created(tmp_path, pond.arriving_by("day", "2026-06-01")) as holdout:
        holdout.gate("accuracy", champion=guesses(may, 0.7, 1))
    guesses(june, 0.7, 2).to_csv(tmp_path / "june.csv", index=False)
    place = [str(tmp_path / "s.db"), "flights"]
    for command in (
        ["append", *place, "--until", "2026-07-01"],
        ["gate", "complete", *place, "gate", str(tmp_path / "june.csv"), "--column", "prediction"],
    ):
        said = CliRunner().invoke(app, command)
        assert said.exit_code == 0, said.output
    assert "rows_left" in said.output


def test_without_row_ids_a_gate_of_a_table_is_refused(tmp_path):
    may, _, _ = windows()
    pond = pond_of(tmp_path, may.drop(columns="id")).arriving_by("day", "2026-06-01")
    with created(tmp_path, pond, rows=eh.Rows(), training=flights(300, 90).drop(columns="id")) as holdout:
        before = holdout.status()
        with pytest.raises(QueryRejected, match=r"needs the rows in an order.*created with row_id"):
            holdout.gate("accuracy", champion="delay > 0")
        assert holdout.status() == before
