"""Registry of all experiments of the laboratory, by their names on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from everhold_lab.experiments.base import Experiment, Picture, Row, Setting

__all__ = ["EXPERIMENTS", "Experiment", "Picture", "Registry", "Row", "Setting"]

_PLACES = {
    "figure2": "zhao2017:Figure2",
    "figure3": "zhao2017:Figure3",
    "dwork2015": "dwork2015:Dwork2015",
    "ladder-attack": "ladder_attack:LadderAttack",
    "widths": "widths:WidthsExperiment",
    "dependence": "dependence:DependenceExperiment",
    "gates": "gates:GatesExperiment",
    "sharpness": "sharpness:Sharpness",
    "tuning-loop": "sealed_search:TuningLoop",
    "leaderboard": "competitions:Competitions",
    "sealed-search": "sealed_search:SealedSearch",
}


class ExperimentRegistry(Mapping[str, type[Experiment]]):
    """Mapping from names to experiments, which imports a module when its experiment is looked up.

    Args:
        places: Name to ``module:Class``, the module inside this package.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)

    def __getitem__(self, name: str) -> type[Experiment]:
        module, kind = self._places[name].split(":")
        found: type[Experiment] = getattr(import_module(f"{__name__}.{module}"), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


EXPERIMENTS: Mapping[str, type[Experiment]] = ExperimentRegistry(_PLACES)
"""All experiments by name, in the order in which ``everhold lab run all`` runs them."""
