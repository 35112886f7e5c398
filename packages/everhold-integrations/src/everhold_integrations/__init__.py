"""everhold inside the tools with which people tune and evaluate models. Each integration is thin.

Begin with `readers`, the registry of files of results. `pytest_plugin`, `optuna`, `mlflow` and `inspect_ai` run inside
of the tools that they are named after.
"""
