"""One line changes between engines: every kind of query has the answer, bit for bit, of the embedded engine."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from engine_tables import in_clickhouse, in_postgres, in_spark
from wire_samples import LABELS, SEALED, TRAINING, queries

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.certificate.verification import verify_certificate
from everhold.queries import KINDS
from everhold_engines import tables
from everhold_engines.column_copies import TableSide
from everhold_engines.conformance import Conformance
from everhold_engines.tables import rows_copied, table_beside

ENGINES = ["clickhouse", *(pytest.param(name, marks=pytest.mark.services) for name in ("postgresql", "spark"))]
WISH = {"label": "y", "row_id": "id", "queries": 30, "allow_resealing": True, "seed": 5}


def with_homes(rows):
    """Rows in groups of one to five, with a number that is missing, or no number, here and there."""
    number = np.where(rows["id"] % 7 == 0, np.nan, rows["x"] * 3)
    return {
        **rows,
        "home": (rows["id"] // 2_000 * 2_000 + (rows["id"] * 2 // 7) // 2 * 2),
        "z": pa.array(number, mask=rows["id"] % 11 == 0),
    }


HOLDOUT, OPEN = with_homes(SEALED), with_homes(TRAINING)
ROWS = len(LABELS)


def all_queries():
    """Those of every kind, and code, which meets rows that are read."""
    return {
        **queries(),
        "of what is missing": [
            "z is null",
            "z > 1",
            eh.mean("z / x", low=-5, high=5),
            eh.ratio("z > 0", "z is not null"),
        ],
        "gradient": [
            eh.gradient(lambda rows: np.stack([rows["x"], rows["y"]], axis=1), dimension=2, clip=1.0, name="g")
        ],
        "low_sensitivity": [
            eh.low_sensitivity(lambda rows: float(np.mean(np.clip(rows["x"], 0, 1))), 1 / ROWS, columns=["x"], name="s")
        ],
    }


def told(holdout, query):
    """All that a result says, without what differs from holdout to holdout; or why there is none."""
    try:
        return said(holdout.ask(query))
    except eh.QueryRejected as refusal:
        return str(refusal)


def said(result):
    facts = result.to_dict() if hasattr(result, "to_dict") else vars(result)
    return json.dumps({name: value for name, value in facts.items() if name not in ("at", "unsealed_at")}, default=repr)


def everything(folder, rows, **more):
    """What a privacy budget says to queries of all kinds, and what its certificate verifies to."""
    with eh.Holdout.create(
        folder / "study.db",
        "study",
        holdout=rows,
        training=OPEN,
        mechanism="privacy_budget",
        **settings_from({**WISH, **more}),
    ) as holdout:
        asked = {kind: [told(holdout, one) for one in several] for kind, several in all_queries().items()}
        batch = [said(one) for one in holdout.ask_many([f"x > {cut / 20}" for cut in range(-10, 10)])]
        holdout.certificate().save(folder / "certificate.json")
    verified = verify_certificate(folder / "certificate.json")
    return SimpleNamespace(asked=asked, batch=batch, verified=verified)


def steps(folder, rows, training=OPEN, **opening):
    """A gate over groups, ratios, the same query after opening again, and the end of the study."""
    place, found = folder / "gate.db", []
    wanted = {
        **WISH,
        "mechanism": "guess_and_check",
        "surprises": 5,
        "dependence": eh.Groups("home"),
        "allow_vacuous": True,
    }
    with eh.Holdout.create(place, "gate", holdout=rows, training=training, **settings_from(wanted)) as holdout:
        gate = holdout.gate("accuracy", champion=1 - LABELS)
        found += [gate.challenge(1 - LABELS).promoted, gate.challenge(LABELS).promoted]
        found += [told(holdout, one) for one in ("x > 0", eh.ratio("x > 1", "x > 0"), eh.accuracy(LABELS))]
    with eh.Holdout.open(place, "gate", **opening) as holdout:
        found.append(told(holdout, eh.ratio("x > 1", "x > 0")))
        found.append(said(holdout.unseal()))
    return found


def confirmed(folder, rows, training=OPEN):
    """What a mechanism that confirms guesses says where rows are independent."""
    asked = [
        "x > 0", eh.mean("z / x", low=-5, high=5), eh.ratio("z > 0", "z is not null"),
        eh.mean(lambda rows: rows["x"] > 0, name="code"), eh.accuracy(LABELS), eh.variance("x", low=-3, high=3),
    ]  # fmt: skip
    with eh.Holdout.create(
        folder / "guesses.db",
        "guesses",
        holdout=rows,
        training=training,
        mechanism="guess_and_check",
        **settings_from(WISH),
    ) as holdout:
        found = [said(one) for one in holdout.ask_many([eh.mean("x", low=-3, high=high) for high in (2, 3, 4)])]
        found += [told(holdout, one) for one in asked]
    found.append(told(holdout, "x > 0.125"))  # what was closed opens again
    holdout.close()
    return found


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """What the embedded engine says."""
    folder = tmp_path_factory.mktemp("embedded")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.EverholdWarning)
        rows = pa.table(HOLDOUT)
        return everything(folder, rows), steps(folder, rows), confirmed(folder, rows)


@pytest.fixture(params=ENGINES)
def tables_of_both(request, tmp_path):
    """The sealed and the training rows in an engine."""
    made, sides = [], {"study": HOLDOUT, "open_rows": OPEN}
    for table, rows in sides.items():
        if request.param == "spark":
            made.append(in_spark(request.getfixturevalue("spark"), tmp_path / table, rows))
        elif request.param == "clickhouse":
            made.append(in_clickhouse(request.getfixturevalue("clickhouse"), tmp_path / table, rows, table))
        else:
            made.append(in_postgres(request.getfixturevalue("postgres_database"), rows, table))
    yield made
    for engine in made:
        engine.close()


@pytest.fixture
def engine(tables_of_both):
    """The sealed rows in an engine."""
    return tables_of_both[0]


def test_every_kind_of_query_is_asked():
    assert {kind.name for kind in KINDS} <= set(all_queries())


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_one_line_changes_between_engines(engine, tables_of_both, embedded, tmp_path, monkeypatch):
    expected, way, guessed = embedded
    found = everything(tmp_path, engine)
    monkeypatch.setattr(
        tables, "conformance", lambda _: Conformance("", 0, 0, ())
    )  # it was tried already, which takes a while
    assert found.asked == expected.asked
    assert found.batch == expected.batch
    assert found.verified.ok is expected.verified.ok is True
    opened = tables_of_both[1]  # the training rows are in the engine as well
    assert confirmed(tmp_path, engine, opened) == guessed
    assert steps(tmp_path, engine, opened, engine=engine) == way


def test_what_is_copied_of_a_table(tables_of_both, monkeypatch):
    monkeypatch.setattr(tables, "MOST_COPIED", ROWS // 4)
    sealed = tables_of_both[0]
    sealed.columns()
    opened = table_beside(*tables_of_both)
    side = TableSide(opened, opened.columns(), len(OPEN["id"]), "training")
    with pytest.raises(eh.HoldoutRejected, match=r"has the rows that are sealed"):
        table_beside(sealed, sealed)

    def copied(declared):
        which = rows_copied(side, sealed, declared, row_id="id")
        of = opened.dialect
        found = opened.rows(f"SELECT {of.column('id')} FROM {opened.source} AS {of.rows}{which}")
        return [row_id for (row_id,) in found]

    homes, ids = np.asarray(OPEN["home"]), np.asarray(OPEN["id"])
    assert side.values("y") == sorted({float(label) for label in OPEN["y"]})
    assert 0 < len(copied(eh.Independent())) < len(ids)
    groups = copied(eh.Groups("home"))
    assert groups == ids[np.isin(homes, homes[np.isin(ids, groups)])].tolist()
    assert 0 < len(groups) < len(ids)
    assert groups == copied(eh.Groups("home"))
    assert set(copied(eh.GaussianAR1(0.1, order_by="id"))) == {*ids[: ROWS // 4].tolist()}
