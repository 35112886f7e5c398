"""Synthetic tables: made once from the sealed rows, queried for ever at no further cost."""

from everhold.synthetic.base import Synthesizer, TableBound
from everhold.synthetic.blr import BLR
from everhold.synthetic.multiplicative_weights import MultiplicativeWeights, PrivateMultiplicativeWeights, Session
from everhold.synthetic.mwem import MWEM
from everhold.synthetic.questions import QueryBlocks, QueryFamily, QueryMatrix
from everhold.synthetic.table import SyntheticTable
from everhold.synthetic.universe import BinnedColumn, ListedColumn, Universe

__all__ = [
    "BLR",
    "MWEM",
    "BinnedColumn",
    "ListedColumn",
    "MultiplicativeWeights",
    "PrivateMultiplicativeWeights",
    "QueryBlocks",
    "QueryFamily",
    "QueryMatrix",
    "Session",
    "Synthesizer",
    "SyntheticTable",
    "TableBound",
    "Universe",
]
