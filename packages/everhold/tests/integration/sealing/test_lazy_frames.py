"""Lazy Polars frames as rows: collected when they are sealed, and never more of them than may be."""

import polars as pl
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected

FRAME = pl.DataFrame({"x": range(2_000), "kind": ["a", "b"] * 1_000}, schema_overrides={"kind": pl.Categorical})


def test_lazy_frames_are_sealed_like_others(tmp_path):
    training, later = (FRAME.with_columns(pl.col("x") + more) for more in (2_000, 4_000))
    with (
        eh.Holdout.create(tmp_path / "l.db", "s", holdout=FRAME.lazy(), training=training.lazy(), queries=9) as lazy,
        eh.Holdout.create(tmp_path / "e.db", "s", holdout=FRAME, training=training, queries=9) as eager,
    ):
        assert lazy.schema == eager.schema
        assert lazy.schema.categories == {"kind": ("a", "b")}
        assert lazy.ask("x >= 1000", guess=0.5).value == eager.ask("x >= 1000", guess=0.5).value
        assert lazy.append(later.lazy()).total == 4_000


def test_a_lazy_frame_that_fails_quotes_no_cell(tmp_path):
    faulty = pl.LazyFrame({"x": ["1", "salary of Ann"]}).with_columns(pl.col("x").cast(pl.Float64))
    plain = FRAME.lazy().select("x")
    with eh.Holdout.create(tmp_path / "s.db", "s", holdout=plain, queries=9, planning=eh.Planning(grows=True)) as made:
        for seal in (
            lambda: eh.Holdout.create(tmp_path / "s.db", "t", holdout=faulty),
            lambda: eh.Holdout.create(tmp_path / "s.db", "t", holdout=FRAME, training=faulty),
            lambda: made.append(faulty),
        ):
            with pytest.raises(HoldoutRejected, match="rows cannot be collected") as refused:
                seal()
            assert "Ann" not in str(refused.value)
            assert refused.value.__context__ is None


def test_a_lazy_frame_with_too_many_rows_is_refused(tmp_path):
    with pytest.raises(HoldoutRejected, match="has 51 rows or more, above the limit of 50"):  # no more are collected
        eh.Holdout.create(tmp_path / "s.db", "s", holdout=FRAME.lazy(), rows=eh.Rows(most_rows=50))
