"""The same rows sealed twice in one storage: found whatever their order and format, and refused unless requested."""

import csv

import numpy as np
import pytest
from holdout_samples import ROWS, create, files, rows

from everhold import GaussianMechanism, Holdout, HoldoutRejected, verify_certificate
from everhold.asking.creation import Creation, settings_from
from everhold.sealing import resealing
from everhold.sealing.intake.duckdb_files import limit_memory, spilling_into
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import Rows, SealRequest
from everhold.sealing.resealing import CONTENT_FILE, Content

NOISE = GaussianMechanism(rows=ROWS, queries=30, scale=0.02)


def shuffled(table, seed=5):
    order = np.random.default_rng(seed).permutation(len(table["delay"]))
    return {name: column[order] for name, column in table.items()}


def with_all_kinds(count=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    moments = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 10**7, count).astype("timedelta64[s]")
    return {
        **rows(seed, count),
        "single": rng.normal(size=count).astype(np.float32),
        "flag": rng.integers(0, 2, count).astype(bool),
        "missing": np.where(rng.random(count) < 0.1, np.nan, rng.normal(size=count)),
        "day": moments.astype("datetime64[D]").astype("datetime64[us]"),
        "time": moments.astype("datetime64[us]"),
    }


def as_csv(table, path):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        for cells in zip(*table.values(), strict=True):
            writer.writerow(["" if cell != cell else cell for cell in cells])
    return path


def as_parquet(table, path):
    polars = pytest.importorskip("polars")
    polars.DataFrame(table).write_parquet(path)
    return path


def reseal(folder, table, **wanted):
    return Holdout.create(
        folder / "study.db", "again", holdout=table, mechanism="gaussian", queries=10, **settings_from(wanted)
    )


FORMS = {
    "as they were": lambda table, _: table,
    "in another order": lambda table, _: shuffled(table),
    "with columns in another order": lambda table, _: dict(reversed(table.items())),
    "as CSV": lambda table, folder: as_csv(table, folder / "rows.csv"),
    "as Parquet": lambda table, folder: as_parquet(table, folder / "rows.parquet"),
    "as a frame": lambda table, _: pytest.importorskip("polars").DataFrame(table),
    "in single precision": lambda table, _: {**table, "delay": table["delay"].astype(np.float32)},
    "without a few": lambda table, _: {name: column[30:] for name, column in table.items()},
    "with some more": lambda table, _: {
        name: np.concatenate([column, with_all_kinds(300, seed=9)[name]]) for name, column in table.items()
    },
    "a part of them": lambda table, _: {name: column[:250] for name, column in table.items()},
    "each of them twice": lambda table, _: {name: np.repeat(column, 2) for name, column in table.items()},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_the_same_rows_sealed_twice_are_refused(tmp_path, form):
    Holdout.create(tmp_path / "study.db", "study", holdout=with_all_kinds(), mechanism="gaussian", queries=10).close()
    table = FORMS[form](with_all_kinds(), tmp_path)
    before = files(tmp_path)
    with pytest.raises(HoldoutRejected, match=r"as 'study'.*allow_resealing"):
        reseal(tmp_path, table)
    assert files(tmp_path) == before


def test_sealed_rows_are_no_training_rows_of_another_holdout_until_they_are_unsealed(tmp_path):
    """Two folds that are sealed crosswise would show each other's rows."""
    one, two, three = with_all_kinds(), with_all_kinds(seed=1), with_all_kinds(seed=2)

    def fold(name, holdout, training, **terms):
        planned = {"mechanism": "guess_and_check", "queries": 10, "label": "late", **terms}
        return Holdout.create(
            tmp_path / "study.db", name, holdout=holdout, training=training, **settings_from(planned)
        )  # fmt: skip

    fold("first", one, two).close()
    before = files(tmp_path)
    for again in (one, shuffled(one)):
        with pytest.raises(HoldoutRejected, match=r"training rows, or most of them, are sealed .*'first'.*Unseal"):
            fold("second", three, again)
    assert files(tmp_path) == before
    with fold("second", three, two, grows=True) as second:  # training rows may be those of several holdouts
        arriving = with_all_kinds(seed=3)
        with pytest.raises(HoldoutRejected, match="training rows, or most of them, are sealed"):
            second.append(arriving, training=one)
        with Holdout.open(tmp_path / "study.db", "first") as first:
            first.ask("delay > 10")
            first.unseal()
        second.append(arriving, training=one)


def test_training_rows_of_a_holdout_are_not_sealed_in_another_because_they_are_open(tmp_path):
    one, two, three = with_all_kinds(), with_all_kinds(seed=1), with_all_kinds(seed=2)
    planned = {"mechanism": "guess_and_check", "queries": 10, "label": "late"}

    def made(name, holdout, **terms):
        return Holdout.create(tmp_path / "study.db", name, holdout=holdout, **settings_from({**planned, **terms}))

    with made("first", one, training=two, grows=True) as first:
        first.append(training=three)
    before = files(tmp_path)
    for again in (two, shuffled(two), three):
        for terms in ({"training": with_all_kinds(seed=4)}, {"allow_resealing": True, "mechanism": "gaussian"}):
            with pytest.raises(HoldoutRejected, match=r"are training rows in this storage, of 'first'"):
                made("second", again, **terms)
    assert files(tmp_path) == before
    with made("second", with_all_kinds(seed=5), training=two, grows=True) as second:
        with pytest.raises(HoldoutRejected, match=r"are training rows in this storage, of 'first'"):
            second.append(three)
        second.append(with_all_kinds(seed=6), training=three)


def test_a_holdout_that_was_created_while_rows_were_compared_is_not_overlooked(tmp_path, monkeypatch):
    sealing = Creation.seal

    def meanwhile(self, *given, **named):
        monkeypatch.setattr(Creation, "seal", sealing)
        made = sealing(self, *given, **named)
        create(tmp_path, "first", mechanism=NOISE).close()
        return made

    monkeypatch.setattr(Creation, "seal", meanwhile)
    with pytest.raises(HoldoutRejected, match=r"'first' was created in this storage meanwhile.*Create this one again"):
        create(tmp_path, "second", mechanism=NOISE)
    assert [each.name[:6] for each in (tmp_path / "study.rows").iterdir()] == ["first-"]
    with pytest.raises(HoldoutRejected, match="already sealed in this storage"):
        create(tmp_path, "second", mechanism=NOISE, allow_resealing=False)


def test_whoever_says_again_may_and_certificates_say_so(tmp_path):
    create(tmp_path, mechanism=NOISE).close()
    for name, training in (("second", True), ("third", None)):
        create(tmp_path, name, mechanism=NOISE, allow_resealing=True, training=training).close()
    for name, others in (("study", "'second', 'third'"), ("third", "'second', 'study'")):
        with Holdout.open(tmp_path / "study.db", name) as holdout:
            certificate = holdout.certificate()
        lines = {row["item"]: row["value"] for row in certificate.to_rows()}
        assert lines["also sealed as"] == others
        assert "udgets do not add up" in certificate.to_html()
        certificate.save(tmp_path / "c.html")
        assert verify_certificate(tmp_path / "c.html").findings == ()


def test_rows_that_were_sealed_once_are_not_said_to_be_sealed_again(tmp_path):
    with create(tmp_path, mechanism=NOISE) as study:
        assert "budgets do not add up" not in study.certificate().to_html()


def test_other_rows_of_one_population_are_not_taken_for_the_same(tmp_path):
    create(tmp_path, mechanism=NOISE).close()
    create(tmp_path, "other", holdout=rows(7), mechanism=NOISE, allow_resealing=False).close()


def coins(seed, count=2_000, **more):
    rng = np.random.default_rng(seed)
    return {"side": rng.integers(0, 2, count), **more}


def pictures(folder, *tables):
    key, found = None, []
    for number, table in enumerate(tables):
        place = folder / str(number)
        place.mkdir()
        sealed = seal_rows(place, SealRequest(holdout=table))
        found.append(Content.of(place / "holdout.parquet", sealed.columns, key=key))
        key = found[0].key
    return found


def test_a_larger_sample_whose_rows_repeat_causes_no_false_alarm(tmp_path):
    rng = np.random.default_rng(4)
    few, many = pictures(tmp_path, *({"x": rng.integers(0, 6_000, count)} for count in (1_000, 20_000)))
    assert few.distinct >= 900
    assert many.distinct > 5_000
    assert not few.resembles(many)
    assert not many.resembles(few)


def test_samples_of_a_few_categories_cause_no_false_alarm(tmp_path):
    heads = np.array([0, 1] * 1_000)  # exactly as many of each: the same rows in another order, or just a coincidence
    tables = [{"side": heads}, {"side": np.sort(heads)}, *(coins(seed) for seed in range(20)), {"side": heads}]
    first, *others, last = pictures(tmp_path, *tables)
    assert not any(first.resembles(other) for other in others)
    assert first.resembles(last)


def test_samples_that_share_many_of_their_cells_cause_no_false_alarm(tmp_path):
    def cells(seed, values):
        rng = np.random.default_rng(seed)
        return {name: rng.integers(0, values, 2_000) for name in ("a", "b", "c")}

    for values in (3, 8, 15, 25, 40):
        (tmp_path / str(values)).mkdir()
        one, other = pictures(tmp_path / str(values), cells(1, values), cells(2, values))
        assert not one.resembles(other)


def test_a_picture_is_private_and_tells_nothing_without_its_key(tmp_path):
    create(tmp_path, mechanism=NOISE).close()
    (file,) = tmp_path.glob(f"study.rows/*/{CONTENT_FILE}")
    assert file.stat().st_mode & 0o777 == 0o400
    found = Content.load(file.parent)
    assert found.key not in (tmp_path / "study.db").read_bytes().decode(errors="replace")
    assert found.key not in repr(found)


def test_a_picture_that_is_missing_is_made_anew(tmp_path):
    create(tmp_path, mechanism=NOISE).close()
    (file,) = tmp_path.glob(f"study.rows/*/{CONTENT_FILE}")
    file.unlink()
    with pytest.raises(HoldoutRejected, match="already sealed in this storage"):
        create(tmp_path, "again", mechanism=NOISE, allow_resealing=False)


def test_another_storage_does_not_know_them(tmp_path):
    create(tmp_path, mechanism=NOISE).close()
    Holdout.create(tmp_path / "elsewhere.db", "study", holdout=rows(0), mechanism=NOISE).close()


def picture(folder, name, table, key=None):
    folder = folder / name
    folder.mkdir()
    sealed = seal_rows(folder, SealRequest(holdout=table, rows=Rows(most_rows=10**6)))
    return Content.of(folder / "holdout.parquet", sealed.columns, key=key)


def test_of_many_different_rows_a_share_is_counted(tmp_path, monkeypatch):
    """The digest is of all rows, however few are counted; what is counted tells about how many there are."""
    table = with_all_kinds(20_000)
    whole = picture(tmp_path, "whole", table)
    monkeypatch.setattr(resealing, "_COUNTED", 4_000)
    share = picture(tmp_path, "share", shuffled(table), whole.key)
    assert (share.digest, share.rows, share.sketch) == (whole.digest, 20_000, whole.sketch)
    assert 0 < abs(share.distinct - whole.distinct) < 0.1 * whole.distinct
    most = {name: column[:12_000] for name, column in table.items()}
    assert picture(tmp_path, "most", most, whole.key).resembles(whole)
    assert not picture(tmp_path, "others", with_all_kinds(20_000, seed=1), whole.key).resembles(whole)


@pytest.mark.parametrize("columns", [1, 256, 257])
def test_what_looks_at_rows_holds_what_their_columns_need(tmp_path, columns):
    with spilling_into(tmp_path) as connection:
        ((before,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        limit_memory(connection, columns)
        ((after,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert after == {1: "495.9 MiB", 256: "2.3 GiB", 257: before}[columns]  # 520 and 2,560 million bytes


def after_a_lost_database(folder, *, asked):
    """Seal rows, ask or not, and delete the database but not the folder of the rows."""
    with Holdout.create(folder / "study.db", "study", holdout=with_all_kinds(), mechanism=NOISE) as holdout:
        if asked:
            holdout.ask("delay > 10")
    for file in folder.glob("study.db*"):
        if file.is_file():
            file.unlink()


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_rows_that_answered_are_not_sealed_anew_because_their_database_was_deleted(tmp_path):
    after_a_lost_database(tmp_path, asked=True)
    before = files(tmp_path)
    with pytest.raises(HoldoutRejected, match=r"already sealed in the folder study-[0-9a-f]{8} beside this storage"):
        reseal(tmp_path, shuffled(with_all_kinds()))
    assert files(tmp_path) == before
    create(tmp_path, "other", holdout=rows(7), mechanism=NOISE).close()  # other rows can be sealed beside them
    with reseal(tmp_path, with_all_kinds(), allow_resealing=True) as again:
        assert "folder study-" in str(again.certificate().in_words()["summary"])


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_rows_that_told_nothing_are_sealed_anew_after_a_creation_that_was_cut_short(tmp_path):
    after_a_lost_database(tmp_path, asked=False)
    reseal(tmp_path, with_all_kinds()).close()


@pytest.mark.parametrize("protection", ["allow_resealing", "equal_rows", "allow_vacuous"])
@pytest.mark.parametrize("value", ["no", "False", 1, None])
def test_only_a_truth_value_ends_a_protection(tmp_path, protection, value):
    """A text such as "no" from a file of settings counts as true in Python."""
    with pytest.raises(ValueError, match=f"{protection} is {value!r}. Pass True or False"):
        create(tmp_path, "h", **{protection: value})
