from cli_fixtures import everhold, sealed_study, study
from ledger_fixtures import alter, path, pytest_generate_tests, record, store, url

__all__ = ["alter", "everhold", "path", "pytest_generate_tests", "record", "sealed_study", "store", "study", "url"]
