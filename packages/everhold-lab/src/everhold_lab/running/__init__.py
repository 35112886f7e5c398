"""Running experiments: checkpoints, results, reports."""
