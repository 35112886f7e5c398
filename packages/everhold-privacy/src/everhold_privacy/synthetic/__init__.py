"""Synthetic tables: made once from the sealed rows, queried for ever at no further cost."""

from everhold.values.universe import BinnedColumn, ListedColumn, QueryFamily, QueryMatrix, Universe
from everhold_privacy.synthetic.base import Synthesizer
from everhold_privacy.synthetic.blr import BLR
from everhold_privacy.synthetic.mwem import MWEM
from everhold_privacy.synthetic.table import SyntheticTable

__all__ = [
    "BLR", "MWEM", "BinnedColumn", "ListedColumn", "QueryFamily", "QueryMatrix", "Synthesizer", "SyntheticTable",
    "Universe",
]  # fmt: skip
