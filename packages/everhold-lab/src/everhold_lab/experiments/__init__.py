"""Registry of all experiments of the laboratory, by their names on the command line."""

from __future__ import annotations

from everhold.extensions import Registry
from everhold_lab.experiments.base import Experiment, Picture, Row, Setting

__all__ = ["EXPERIMENTS", "Experiment", "Picture", "Row", "Setting"]

EXPERIMENTS: Registry[type[Experiment]] = Registry(
    "everhold.experiments",
    {
        "figure2": "everhold_lab.experiments.zhao2017:Figure2",
        "figure3": "everhold_lab.experiments.zhao2017:Figure3",
        "dwork2015": "everhold_lab.experiments.dwork2015:Dwork2015",
        "ladder-attack": "everhold_lab.experiments.ladder_attack:LadderAttack",
        "widths": "everhold_lab.experiments.widths:WidthsExperiment",
        "dependence": "everhold_lab.experiments.dependence:DependenceExperiment",
        "gates": "everhold_lab.experiments.gates:GatesExperiment",
        "sharpness": "everhold_lab.experiments.sharpness:Sharpness",
        "tuning-loop": "everhold_lab.experiments.sealed_search:TuningLoop",
        "leaderboard": "everhold_lab.experiments.competitions:Competitions",
        "sealed-search": "everhold_lab.experiments.sealed_search:SealedSearch",
    },
)
"""All experiments by name, in the order in which ``everhold lab run all`` runs them."""
