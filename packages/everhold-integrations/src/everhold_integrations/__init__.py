"""everhold inside the tools that people tune and evaluate with; each integration is thin.

Begin with `readers`, the registry of files of results. `pytest_plugin`, `optuna`, `mlflow` and `inspect_ai` run inside
of the tools that they are named after.
"""
