"""Which rows are sealed: a known share, whole groups, the last rows behind a gap, classes in their shares."""

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.splitting import BLOCK, SplitRule, by_chance, by_class, by_group, by_time, split_file

SHARES = st.floats(0.05, 0.95)
SEEDS = st.integers(0, 10)


def rows(folder, count=400, name="rows.csv"):
    rng = np.random.default_rng(0)
    lines = ["id,patient,day,site,late"]
    for place in range(count):
        day = f"2024-{1 + place % 12:02d}-{1 + place % 28:02d}"
        lines.append(f"{place},p{rng.integers(60)},{day},{rng.choice(['é', 'a b'])},{int(rng.random() < 0.2)}")
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def read(folder, what, columns="*"):
    return duckdb.sql(f"SELECT {columns} FROM '{folder / what}.parquet'").fetchall()


@given(count=st.integers(2, 200), share=SHARES, seed=SEEDS)
def test_a_share_of_the_rows_is_drawn(count, share, seed):
    parts = by_chance(count, share, np.random.default_rng(seed))
    assert abs(parts.sealed_rows - share * count) <= 1
    assert parts.training_rows + parts.sealed_rows == count


def test_every_row_has_the_same_chance():
    drawn = sum(by_chance(10, 0.3, np.random.default_rng(seed)).side.astype(int) for seed in range(2_000))
    assert np.all(np.abs(drawn / 2_000 - 0.3) < 0.05)


@given(groups=st.lists(st.integers(0, 9), min_size=5, max_size=60).filter(lambda some: len(set(some)) > 1),
       share=SHARES, seed=SEEDS)  # fmt: skip
def test_groups_are_whole_and_chance_knows_no_size(groups, share, seed):
    groups = np.array(groups)
    parts = by_group(groups, share, np.random.default_rng(seed))
    for group in set(groups.tolist()):
        assert len(set(parts.side[groups == group].tolist())) == 1
    sealed, every = len(parts.sealed_sizes), len(set(groups.tolist()))
    assert abs(sealed - share * every) <= 1
    assert parts.sealed_sizes.sum() == parts.sealed_rows
    renamed = by_group(1_000 - 7 * groups, share, np.random.default_rng(seed))
    assert np.array_equal(renamed.side, parts.side)  # what a group is called makes no difference


@given(classes=st.lists(st.sampled_from([3, 1, 2, -7]), min_size=5, max_size=90), share=SHARES, seed=SEEDS)
def test_classes_keep_their_shares(classes, share, seed):
    classes = np.array(classes)
    parts = by_class(classes, share, np.random.default_rng(seed))
    for each in set(classes.tolist()):
        inside = classes == each
        assert abs(np.count_nonzero(parts.side[inside]) - share * np.count_nonzero(inside)) <= 1
    assert abs(parts.sealed_rows - share * len(classes)) <= 1


@given(times=st.lists(st.integers(0, 40), min_size=10, max_size=80), share=SHARES, gap=st.integers(0, 6))
def test_the_last_rows_are_sealed_behind_a_gap(times, share, gap):
    times = np.array(times, dtype=float)
    try:
        parts = by_time(times, share, gap=gap, block=2.0 * gap)
    except HoldoutRejected:
        return
    trained, sealed, nobody = (times[parts.side == side] for side in range(3))
    assert sealed.min() - trained.max() >= max(gap, 1)
    assert all(sealed.min() - gap < time < sealed.min() for time in nobody)
    assert len(sealed) >= min(round(share * len(times)), len(times) - 1)
    for block in set(parts.groups[parts.side != 2].tolist()):
        inside = times[(parts.groups == block) & (parts.side != 2)]
        assert inside.max() - inside.min() < max(2 * gap, 1)
        assert len(set(parts.side[(parts.groups == block) & (parts.side != 2)].tolist())) == 1


def test_blocks_as_long_as_the_memory_declare_too_little():
    """The guide on a moving average over the gap: the rows of neighbouring blocks vary together."""
    gap, count = 10, 2_000
    for blocks, said in ((1, 1.22), (4, 1.04)):
        length = blocks * gap
        noise = np.random.default_rng(5).normal(size=count * length + gap - 1)
        groups = by_time(np.arange(2.0 * count * length), 0.5, gap=gap, block=length).groups[-count * length :]
        series = np.convolve(noise, np.ones(gap), mode="valid")
        sums = np.bincount(groups - groups[0], weights=series)
        assert len(sums) == count
        true, declared = gap * gap * len(series), np.var(sums) * count  # of the whole sum; each shock counts gap times
        assert np.sqrt(true / declared) == pytest.approx(said, abs=0.04)


def test_blocks_too_short_to_be_numbered_are_refused():
    """Numbers that overflow would all be one, and the sealed rows one group."""
    with pytest.raises(HoldoutRejected, match="too short"):
        by_time(np.arange(1_000.0), 0.3, gap=1e-300, block=1e-300)


def test_a_split_keeps_columns_types_and_order_and_loses_nothing(tmp_path):
    path = rows(tmp_path)
    parts = split_file(path, tmp_path / "out", SplitRule(share=0.25), seed=4)
    whole = duckdb.read_csv(str(path)).fetchall()
    both = [read(tmp_path / "out", what) for what in ("training", "holdout")]
    assert [len(some) for some in both] == [300, 100] == [parts.training_rows, parts.sealed_rows]
    assert sorted([*both[0], *both[1]]) == sorted(whole)
    assert all(some == sorted(some) for some in both)  # by id, which comes first
    assert (tmp_path / "out" / "holdout.parquet").stat().st_mode & 0o077 == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["holdout.parquet", "training.parquet"]


def test_the_same_seed_is_the_same_split_and_none_is_another(tmp_path):
    path = rows(tmp_path)
    seen = []
    for place, seed in enumerate((7, 7, None, None)):
        split_file(path, tmp_path / str(place), SplitRule(share=0.5, groups="patient"), seed=seed)
        seen.append(read(tmp_path / str(place), "holdout"))
    assert seen[0] == seen[1]
    assert seen[2] != seen[3]


def test_groups_and_times_of_a_file(tmp_path):
    path = rows(tmp_path)
    split_file(path, tmp_path / "g", SplitRule(share=0.3, groups="patient"))
    trained, sealed = ({name for (name,) in read(tmp_path / "g", what, "patient")} for what in ("training", "holdout"))
    assert not trained & sealed
    assert len(sealed) == round(0.3 * len(trained | sealed))
    parts = split_file(path, tmp_path / "t", SplitRule(share=0.3, time="day", gap=30))
    first, last = (read(tmp_path / "t", what, f"{end}(day), {end}({BLOCK})")[0]
                   for what, end in (("holdout", "min"), ("training", "max")))  # fmt: skip
    assert (first[0] - last[0]).days >= 30
    assert first[1] > last[1]
    days, blocks = read(tmp_path / "t", "holdout", f"max(day) - min(day), 1 + max({BLOCK}) - min({BLOCK})")[0]
    assert blocks in (days // 120 + 1, days // 120 + 2)  # four gaps each
    assert parts.left_out == 400 - parts.training_rows - parts.sealed_rows > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"groups": "nobody"}, "no column 'nobody'. Name one of 'id', 'patient'"),
        ({"time": "site", "gap": 1, "block": 1}, "has strings. Pass a column of dates"),
        ({"time": "day", "gap": 5_000, "block": 5_000}, "No row is left before the gap"),
        ({"stratify": "id"}, "3,000 values. Pass a column with at most 1,000"),
    ],
)
def test_what_cannot_be_split_is_refused_and_leaves_nothing(tmp_path, more, message):
    path = rows(tmp_path, 3_000 if "stratify" in more else 100)
    with pytest.raises(HoldoutRejected, match=message) as caught:
        split_file(path, tmp_path / "out", SplitRule(share=0.3, **more))
    assert caught.value.message.endswith(".")
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_values_and_a_second_time_are_refused(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("id,patient\n1,a\n2,\n3,b\n")
    with pytest.raises(HoldoutRejected, match="no value in 1 rows"):
        split_file(path, tmp_path, SplitRule(share=0.5, groups="patient"))
    split_file(path, tmp_path, SplitRule(share=0.5))
    before = (tmp_path / "holdout.parquet").read_bytes()
    with pytest.raises(HoldoutRejected, match="exists"):
        split_file(path, tmp_path, SplitRule(share=0.5))
    assert (tmp_path / "holdout.parquet").read_bytes() == before
