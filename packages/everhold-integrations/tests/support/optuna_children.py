"""What child processes of the tests of Optuna run; kept apart from pytest, so that a child starts fast."""

import optuna

from everhold import Holdout
from everhold_integrations.optuna import SealedObjective


def cut(trial):
    """A query that no other trial asks."""
    return f"delay > {trial.number}"


def optimize(storage, study_storage, trials, keep):
    """Join a study and ask one holdout, until it stops."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="shared", storage=study_storage)
    with Holdout.open(storage, "study") as holdout:
        sealed = SealedObjective(cut, holdout, keep=keep)
        study.optimize(sealed, n_trials=trials, callbacks=[sealed.stop_in_time])
