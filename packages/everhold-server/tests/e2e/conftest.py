from cli_fixtures import everhold, sealed_study, study

__all__ = ["everhold", "sealed_study", "study"]
