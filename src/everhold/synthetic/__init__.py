"""Synthetic tables: made once from the sealed rows, queried for ever at no further cost."""

from everhold.synthetic.base import Synthesizer
from everhold.synthetic.blr import BLR
from everhold.synthetic.mwem import MWEM
from everhold.synthetic.table import SyntheticTable
from everhold.synthetic.universe import BinnedColumn, ListedColumn, QueryFamily, QueryMatrix, Universe

__all__ = [
    "BLR",
    "MWEM",
    "BinnedColumn",
    "ListedColumn",
    "QueryFamily",
    "QueryMatrix",
    "Synthesizer",
    "SyntheticTable",
    "Universe",
]
