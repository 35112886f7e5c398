"""Means that a judge assists: what is recorded of a pool, what is refused, and how wide the answers are."""

import hashlib
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import everhold as eh
from everhold.queries.means.assisted import check_units

ROWS, POOL = 300, 5_000
QUERY = eh.mean("human", assisted_by="judge", pool="pool")


def drawn(rng, rows, *, agreement=0.8, first=0):
    human = rng.random(rows) < 0.5
    judge = np.where(rng.random(rows) < agreement, human, ~human)
    noise, score = rng.random(rows) < 0.5, rng.normal(size=rows).round(6)
    return {"id": first + np.arange(rows), "human": human, "judge": judge, "noise": noise, "score": score}


def unlabelled(table):
    return {name: column for name, column in table.items() if name != "human"}


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(3)
    return {
        "holdout": drawn(rng, ROWS),
        "training": drawn(rng, ROWS, first=ROWS),
        "pool": drawn(rng, POOL, first=10_000),
    }


def created(folder, tables, *, name="study", **wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.EverholdWarning)
        return eh.Holdout.create(
            f"sqlite:///{folder}/h.db", name, holdout=tables["holdout"], training=tables["training"],
            **{"rows": eh.Rows(row_id="id"), "queries": 20, "seed": 1, "allow_resealing": True, **wanted},
        )  # fmt: skip


@pytest.fixture(scope="module")
def holdout(tables, tmp_path_factory):
    with created(
        tmp_path_factory.mktemp("assisted"), tables,
        declared={"pool": eh.pool(unlabelled(tables["pool"]), ["judge", "noise", "score > 1"])}, share=0.1,
    ) as made:  # fmt: skip
        yield made


def test_an_assisted_answer_is_narrower_and_names_its_pool(holdout, tables):
    assisted, plain = holdout.ask(QUERY), holdout.ask("human")
    assert assisted.low <= 0.5 <= assisted.high
    assert assisted.high - assisted.low < 0.85 * (plain.high - plain.low)
    assert holdout.ask(eh.mean("human", assisted_by="judge", pool=unlabelled(tables["pool"]))).repeated
    certificate = holdout.certificate().to_dict()
    (family,) = certificate["account"]["declared"]
    assert "of the same population, on which judge, noise, score > 1 was not tuned" in family["holds"]


def test_a_judge_that_knows_nothing_is_left_out(holdout):
    with_noise = eh.mean("human", assisted_by="noise", pool="pool")
    assert holdout.ask(with_noise).query == holdout.ask("human").query


def test_declared_and_silent_answers(tables, tmp_path):
    declared = {"pool": eh.pool(unlabelled(tables["pool"]), ["judge"]), "ends": eh.listed([QUERY])}
    with created(tmp_path, tables, declared=declared) as holdout:
        told = holdout.ask(QUERY)
        assert (told.source, told.charged) == ("declared", 0)
    with created(tmp_path, tables, name="silent", declared={"pool": declared["pool"]}) as holdout:
        holdout.ask(QUERY, silent=True)
        holdout.ask("human", silent=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.EverholdWarning)  # the same rows are sealed twice
            holdout.unseal()
        assisted, plain = holdout.ask(QUERY), holdout.ask("human")
        assert assisted.sealed_high - assisted.sealed_low < 0.95 * (plain.sealed_high - plain.sealed_low)


def test_a_pool_can_be_recorded_later_and_is_no_other_pool(tables, tmp_path):
    with created(tmp_path, tables) as holdout:
        with pytest.raises(eh.QueryRejected, match="not recorded"):
            holdout.ask(QUERY)
        holdout.declare("pool", eh.pool(unlabelled(tables["pool"]), ["judge"]))
        before = holdout.remaining
        part = {name: column[:100] for name, column in unlabelled(tables["pool"]).items()}
        for refused, said in (
            (eh.mean("human", assisted_by="judge", pool=part), "not recorded"),
            (eh.mean("human", assisted_by="noise", pool="pool"), "no judge"),
            (eh.mean("score", assisted_by="judge", pool="pool"), "without a known range"),
        ):
            with pytest.raises(eh.QueryRejected, match=said):
                holdout.ask(refused)
        assert holdout.remaining == before
        assert holdout.ask(QUERY).low is not None


@pytest.mark.parametrize("row_id", ["id", None])
def test_a_pool_with_a_sealed_row_in_it_is_refused(tables, tmp_path, row_id):
    mixed = {name: np.append(tables["pool"][name], tables["holdout"][name]) for name in ("id", "judge", "score")}
    if row_id is None:
        mixed["id"] = np.arange(len(mixed["id"])) + 1_000_000
    with created(tmp_path, tables, rows=eh.Rows(row_id=row_id)) as holdout:
        with pytest.raises(eh.QueryRejected, match="Row 5,001 of the pool") as refused:
            holdout.declare("pool", eh.pool(mixed if row_id else {n: mixed[n] for n in ("judge", "score")}, ["judge"]))
        assert refused.value.data["row"] == POOL + 1
        assert not holdout.declared.families().rows


def test_a_pool_that_cannot_be_counted_is_refused(tables, tmp_path):
    good = unlabelled(tables["pool"])
    faults = [
        ({"noise": good["noise"]}, ["judge"], "is not there"),
        ({"judge": good["score"]}, ["judge"], "is a number"),
        ({"judge": [True, None, False]}, ["judge"], "Row 2 of the pool has no value"),
        ({"judge": np.zeros(0, dtype=bool)}, ["judge"], "no rows"),
        (good, "judge", "Pass a list"),
        (good, ["score"], "without a known range"),
    ]
    with created(tmp_path, tables) as holdout:
        for rows, judges, said in faults:
            with pytest.raises(eh.QueryRejected, match=said):
                holdout.declare("pool", eh.pool(rows, judges))
    series = SimpleNamespace(dependence=SimpleNamespace(independent=False, group_column=None))
    with pytest.raises(eh.QueryRejected, match="depend on each other"):
        check_units(series, "a pool")


def rated(rng, rows, *, first, know, size=1):
    """Numbers from 1 to 5, what a judge says of them as a number and in three words, and groups of some rows."""
    group = np.repeat(np.arange(-(-rows // size)), size)[:rows]
    latent = rng.normal(size=rows) + rng.normal(0.0, 0.5, rows)[group]
    said = 3 + know * latent + np.sqrt(1 - know**2) * rng.normal(size=rows)
    verdict = np.where(said < 2.4, "poor", np.where(said < 3.6, "it's fair", "good")).astype(object)
    return {
        "group": first + group, "rating": np.clip(3 + latent, 1, 5), "good": latent > 0, "score": np.clip(said, 1, 5),
        "verdict": verdict,
    }  # fmt: skip


def rated_holdout(folder, *, know, size, seed):
    rng = np.random.default_rng(seed)
    tables = [
        rated(rng, rows, first=first, know=know, size=size) for rows, first in ((900, 0), (900, 10**4), (20_000, 10**5))
    ]
    judged = {name: tables[2][name] for name in ("group", "score", "verdict")}
    pool = eh.pool(judged, [eh.mean("score", low=1, high=5), "verdict"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.EverholdWarning)
        return judged, eh.Holdout.create(
            f"sqlite:///{folder}/h.db", "study", holdout=tables[0], training=tables[1], declared={"pool": pool},
            share=0.1, queries=20, dependence=eh.Groups("group") if size > 1 else eh.Independent(),
        )  # fmt: skip


def test_a_pool_in_groups_is_known_as_well_as_its_groups_and_not_as_its_rows(tmp_path):
    """Equal rows of a group say the same thing many times."""
    _, holdout = rated_holdout(tmp_path, know=0.9, size=3, seed=1)
    said, widths = 1 + 4 * np.random.default_rng(1).random(60), {}
    with holdout:
        for copies in (1, 50):
            rows = {"group": np.repeat(10**6 + np.arange(60), copies), "score": np.repeat(said, copies)}
            family = eh.pool(rows, [eh.mean("score", low=1, high=5)])
            bound = family.bind(holdout._transport.session.executor.compiler)
            ((part,),) = bound.judges.values()
            low, high = part.within(3.0)
            widths[copies] = high - low
    assert widths[50] == pytest.approx(widths[1], rel=0.1)


@pytest.mark.parametrize("size", [1, 3])
def test_numbers_and_judges_with_three_verdicts_are_assisted_for_rows_and_groups(tmp_path, size):
    _, holdout = rated_holdout(tmp_path, know=0.95, size=size, seed=size)
    with holdout:
        for judge in ("score", "verdict"):
            assisted = holdout.ask(eh.mean("rating", low=1, high=5, assisted_by=judge, pool="pool"))
            plain = holdout.ask(eh.mean("rating", low=1, high=5))
            assert assisted.query != plain.query
            assert assisted.low <= 3.0 <= assisted.high
            assert assisted.high - assisted.low < 0.97 * (plain.high - plain.low)
        assert len(holdout.certificate().to_dict()["account"]["declared"]) == 1
    with eh.Holdout.open(f"sqlite:///{tmp_path}/h.db", "study") as again:
        assert again.ask(eh.mean("rating", low=1, high=5, assisted_by="verdict", pool="pool")).repeated


@pytest.mark.parametrize("size", [1, 3])
def test_a_judge_of_numbers_that_knows_nothing_widens_no_answer_by_more_than_a_twentieth(tmp_path, size):
    _, holdout = rated_holdout(tmp_path, know=0.0, size=size, seed=4)
    queries = [("rating", {"low": 1, "high": 5}), ("good", {})]
    with holdout:
        for text, ends in queries:
            holdout.ask(eh.mean(text, **ends), silent=True)
            for judge in ("score", "verdict"):
                holdout.ask(eh.mean(text, **ends, assisted_by=judge, pool="pool"), silent=True)
        holdout.unseal()
        for text, ends in queries:
            plain = holdout.ask(eh.mean(text, **ends))
            for judge in ("score", "verdict"):
                assisted = holdout.ask(eh.mean(text, **ends, assisted_by=judge, pool="pool"))
                width = assisted.sealed_high - assisted.sealed_low
                assert width <= 1.05 * (plain.sealed_high - plain.sealed_low)


def test_a_pool_with_a_sealed_group_or_with_too_many_verdicts_is_refused(tmp_path):
    judged, holdout = rated_holdout(tmp_path, know=0.8, size=3, seed=5)
    rows = len(judged["group"])
    with holdout:
        for change, judges, said in (
            ({"group": np.where(np.arange(rows) < 3, 7, judged["group"])}, ["verdict"], "Row 1 .*, with group = 7"),
            ({"verdict": np.arange(rows).astype(str).astype(object)}, ["verdict"], "too many verdicts"),
            ({"verdict": np.full(rows, "good", dtype=object)}, ["verdict"], "one verdict"),
        ):  # fmt: skip
            with pytest.raises(eh.QueryRejected, match=said):
                holdout.declare("other", eh.pool({**judged, **change}, judges))
        with pytest.raises(eh.QueryRejected, match="'group' of the pool is not there"):
            holdout.declare("other", eh.pool({"verdict": judged["verdict"]}, ["verdict"]))


def test_arguments_that_do_not_belong_together_are_refused():
    for wanted in (
        {"assisted_by": "judge"},
        {"pool": "pool"},
        {"assisted_by": "judge", "pool": "pool", "given": "noise"},
        {"assisted_by": "judge", "pool": "pool", "name": "mine"},
    ):
        with pytest.raises(eh.QueryRejected, match="must be passed together"):
            eh.mean("human", **wanted)


def grouped(table, *, size=5):
    return {**table, "person": table["id"] // size}


GROWS = {"planning": eh.Planning(grows=True)}
KNOWN_BY = {
    "row_id": (("person",), {"rows": eh.Rows(row_id="id"), **GROWS}),
    "group": (("id",), {
        "rows": eh.Rows(), "dependence": eh.Groups("person"), "planning": eh.Planning(grows=True, largest_group=5),
    }),
    "values": (("id", "person"), {"rows": eh.Rows(), **GROWS}),
}  # fmt: skip


@pytest.mark.parametrize("known", KNOWN_BY)
def test_rows_of_a_pool_are_not_appended(tables, tmp_path, known):
    """A row of a pool could be labelled and appended, but analysts know it."""
    dropped, terms = KNOWN_BY[known]
    fresh = {**tables, "new": drawn(np.random.default_rng(9), 100, first=50_000)}
    kept = {
        side: {name: column for name, column in grouped(table).items() if name not in dropped}
        for side, table in fresh.items()
    }
    pool = eh.pool(unlabelled(kept["pool"]), ["judge"])
    with created(tmp_path, kept, declared={"pool": pool}, share=0.1, **terms) as study:
        before = study.status()
        with pytest.raises(eh.HoldoutRejected, match="in a recorded pool"):
            study.append({name: column[:100] for name, column in kept["pool"].items()})
        assert study.status() == before
        study.append(kept["new"])


def test_some_rows_of_a_pool_among_new_rows_are_not_appended(tables, tmp_path):
    """Without ids as many equal rows as chance gives are allowed, and not one part in ten."""
    new = drawn(np.random.default_rng(9), 1_000, first=50_000)
    kept = {side: {n: c for n, c in table.items() if n != "id"} for side, table in {**tables, "new": new}.items()}
    with created(
        tmp_path, kept, declared={"pool": eh.pool(unlabelled(kept["pool"]), ["judge"])}, share=0.1, rows=eh.Rows(),
        **GROWS,
    ) as study:  # fmt: skip
        mixed = {name: np.append(kept["pool"][name][:100], kept["new"][name][100:]) for name in kept["new"]}
        with pytest.raises(eh.HoldoutRejected, match="100 of the new rows are in a recorded pool"):
            study.append(mixed)
        study.append(kept["new"])


def test_hashes_of_a_pool_do_not_depend_on_the_version_of_duckdb(tables, tmp_path):
    """They are kept for years. DuckDB's own hashes may change with its version, those of MD5 do not."""
    with created(tmp_path, tables, declared={"pool": eh.pool(unlabelled(tables["pool"]), ["judge"])}, share=0.1):
        (kept,) = tmp_path.glob("h.rows/*/known-pool-*")
    ids = [hashlib.md5(str(one).encode()).digest() for one in tables["pool"]["id"]]
    halves = np.array([int.from_bytes(one[8:], "little") for one in ids], dtype="<u8")
    assert kept.read_bytes().startswith(np.sort(halves).tobytes())


def test_rows_of_a_pool_that_were_labelled_since_are_not_appended(tables, tmp_path):
    """A pool may hold the column of the labels, without values."""
    kept = {side: {n: c for n, c in table.items() if n != "id"} for side, table in tables.items()}
    rows = pa.table({**unlabelled(kept["pool"]), "human": pa.nulls(POOL, pa.bool_())})
    pool = eh.pool(rows, ["judge"])
    with created(tmp_path, kept, declared={"pool": pool}, share=0.1, rows=eh.Rows(), **GROWS) as study:
        with pytest.raises(eh.HoldoutRejected, match="100 of the new rows are in a recorded pool"):
            study.append({name: column[:100] for name, column in kept["pool"].items()})
        both = {name: np.append(kept["pool"][name], kept["holdout"][name]) for name in unlabelled(kept["pool"])}
        with pytest.raises(eh.QueryRejected, match="is a sealed row"):
            study.declare("other", eh.pool(pa.table({**both, "human": pa.nulls(POOL + ROWS, pa.bool_())}), ["judge"]))


@pytest.mark.parametrize("kind", [float, str])
def test_ids_are_compared_exactly_and_whatever_their_type(tables, tmp_path, kind):
    """Ids of nine digits differ beyond single precision, and 7 in one file is 7.0 or "7" in another."""
    large = {side: {**table, "id": table["id"] + 100_000_000} for side, table in tables.items()}
    rows = {name: np.append(large["pool"][name], large["holdout"][name][:1]) for name in unlabelled(large["pool"])}
    rows["id"] = rows["id"].astype(kind).astype(object if kind is str else kind)
    pool = eh.pool({name: column[:POOL] for name, column in rows.items()}, ["judge"])
    with created(tmp_path, large, declared={"pool": pool}, share=0.1, **GROWS) as study:
        with pytest.raises(eh.HoldoutRejected, match="100 of the new rows are in a recorded pool"):
            study.append({name: column[:100] for name, column in large["pool"].items()})
        study.append(drawn(np.random.default_rng(9), 100, first=100_010_000 + POOL))
        with pytest.raises(eh.QueryRejected, match="Row 5,001 of the pool, with id = 100000000"):
            study.declare("other", eh.pool(rows, ["judge"]))


def whole(table):
    return {name: column for name, column in table.items() if name != "id"}


ROWS_WITHOUT_IDS = {
    "rounded by the pool's file": (lambda table: table, {"score": np.float32}),
    "rounded large whole numbers": (
        lambda table: {**table, "score": 10**9 + 65 * table["id"]},
        {"score": np.float32},
    ),
    "large whole numbers": (lambda table: {**table, "score": 10**12 + table["id"]}, {}),
    "whole numbers as fractions": (lambda table: {**table, "score": table["id"]}, {"score": np.float64}),
    "an empty text for the label": (lambda table: {**table, "human": table["human"].astype(str)}, {"human": "label"}),
}


@pytest.mark.parametrize("how", ROWS_WITHOUT_IDS)
def test_rows_without_ids_are_recognized_at_both_moments(tables, tmp_path, how):
    """Equal are rows in single precision or in double precision, when a pool is declared and when rows arrive."""
    change, stored = ROWS_WITHOUT_IDS[how]
    new = drawn(np.random.default_rng(9), 100, first=50_000)
    changed = {side: whole(change(table)) for side, table in {**tables, "new": new}.items()}

    def pooled(table):
        rows = unlabelled(table)
        if stored == {"human": "label"}:
            return {**rows, "human": np.full(len(rows["judge"]), "", dtype=object)}
        return {name: column.astype(stored.get(name, column.dtype)) for name, column in rows.items()}

    terms = {"declared": {"pool": eh.pool(pooled(changed["pool"]), ["judge"])}, "share": 0.1, "rows": eh.Rows()}
    with created(tmp_path, changed, **terms, **GROWS) as study:
        with pytest.raises(eh.HoldoutRejected, match="100 of the new rows are in a recorded pool"):
            study.append({name: column[:100] for name, column in changed["pool"].items()})
        study.append(changed["new"])
        both = {name: np.append(column, changed["holdout"][name]) for name, column in changed["pool"].items()}
        with pytest.raises(eh.QueryRejected, match="Row 5,001 of the pool is a sealed row"):
            study.declare("other", eh.pool(pooled(both), ["judge"]))


def test_rows_that_arrived_are_in_no_later_pool(tables, tmp_path):
    new = drawn(np.random.default_rng(9), 100, first=50_000)
    with created(tmp_path, tables, declared=[eh.texts()], share=0.1, **GROWS) as study:
        study.append(new)
        with pytest.raises(eh.QueryRejected, match="is a sealed row"):
            study.declare("later", eh.pool(unlabelled(new), ["judge"]))
