"""Creation of a holdout that will grow: its mechanism, and what declared families have to know first (S13, S14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.errors import HoldoutRejected
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.sealing.configuration import FAMILIES_GROW, GROWS, LARGEST_GROUP
from everhold.sealing.intake.reading import MOST_ROWS

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.sealing.intake.request import Planning

__all__ = ["growing", "record_growth"]

_DONE = "nothing was created"


def growing(mechanism: Any, planning: Planning, *, declared: bool) -> Any:
    """The mechanism of a holdout that may grow: rows that arrive have half of the probability of failure.

    With declared families all rows have one tree: the families have their part, and the tree has the rest (S14).

    Args:
        mechanism: For rows that stay as they are.
        planning: How it is planned.
        declared: Whether families are declared at creation.

    Raises:
        HoldoutRejected: If it cannot grow. Nothing was created.
    """
    dependence = mechanism.dependence
    if planning.largest_group is not None and not (planning.grows and declared and dependence.in_groups):
        raise HoldoutRejected(
            "largest_group= is for declared families of a holdout that grows and whose rows are in groups; expected it "
            f"with grows=True, declared=... and eh.Groups(...), or left out; {_DONE}"
        )
    if not planning.grows:
        return mechanism
    if not isinstance(mechanism, GuessAndCheck) or not mechanism.endless:
        raise HoldoutRejected(
            f"grows=True needs the mechanism guess_and_check without a slack, and this is {mechanism.name}; {_DONE}"
        )
    if dependence.one_series:
        raise HoldoutRejected(
            "A series has one tree, because new rows depend on the sealed ones. Leave out grows=True: rows can be "
            "appended without it, and intervals narrow"
        )
    if not declared:
        return mechanism.sharing(0.5)
    if dependence.in_groups:
        _check_largest(dependence, planning.largest_group)
    elif not dependence.independent:
        raise HoldoutRejected(
            "Declared families of a holdout that grows need independent rows or groups, and these were declared to "
            "depend on each other in another way. Leave out declared=... or grows=True"
        )
    return mechanism


def _check_largest(groups: DependenceModel, largest: int | None) -> None:
    """Check the size that no group may exceed, of those that are sealed and of those that will arrive.

    Raises:
        HoldoutRejected: If it is missing, or groups are larger. Nothing was created.
    """
    sealed = groups.largest_unit
    if groups.group_column is None:
        raise HoldoutRejected(
            "declared families of a holdout that grows need groups of a column, so that new groups can be told from "
            f"known ones; expected eh.Groups('column'); {_DONE}"
        )
    if largest is None:
        raise HoldoutRejected(
            "declared families over groups that arrive need to know beforehand how large a group may be; expected "
            f"largest_group=..., at least {sealed:,}, the largest group of the sealed rows; larger ones will not be "
            f"taken, and a number larger than needed widens intervals; {_DONE}"
        )
    number = as_whole(largest)
    if number is None or not sealed <= number <= MOST_ROWS:
        raise HoldoutRejected(
            f"largest_group is {brief(largest)}; expected a whole number of at least {sealed:,}, the largest group of "
            f"the sealed rows; {_DONE}"
        )


def record_growth(configuration: dict[str, Any], planning: Planning, *, declared: bool) -> None:
    """Note in the settings of a new holdout that it may grow, and what its families have to know."""
    if not planning.grows:
        return
    if not declared:
        configuration[GROWS] = True
        return
    configuration[FAMILIES_GROW] = configuration["rows"]
    if planning.largest_group is not None:
        configuration[LARGEST_GROUP] = int(planning.largest_group)
