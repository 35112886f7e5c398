"""Experiments played without the runner, and what is drawn in their pictures."""


def played(experiment, repetitions):
    """The rows of all settings, as the runner gives them to an experiment."""
    return [
        {**setting, "repetition": repetition, "seed": repetition, **row}
        for setting in experiment.settings()
        for repetition in range(repetitions)
        for row in experiment.play(setting, repetition)
    ]


def drawn_points(picture):
    (points,) = picture.chart.to_dict()["datasets"].values()
    return points
