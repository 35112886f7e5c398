"""Every check that a diagnosis makes of columns; their p-values are corrected together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.diagnosis.copies import near_copies
from everhold.diagnosis.crossed import crossed
from everhold.diagnosis.groups_and_orders import CHECKS
from everhold.diagnosis.places import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everhold.diagnosis.findings import Finding
    from everhold.diagnosis.groups_and_orders import CheckInputs

ALL_CHECKS: tuple[Callable[[CheckInputs], Iterator[Finding]], ...] = (*CHECKS, places, near_copies, crossed)
