"""Competitions whose whole games are played."""

import warnings

import numpy as np

import everhold as eh


def board_of(folder, labels, competition):
    """A holdout with these labels for a competition, with a probability of failure of .2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eh.Holdout.create(
            f"sqlite:///{folder}/board.db", "board", holdout={"x": np.arange(len(labels)) * 0.5, "y": labels},
            label="y", rows=eh.Rows(features="public"), competition=competition, confidence=0.8,
        )  # fmt: skip
