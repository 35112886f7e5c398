from ledger_fixtures import alter, path, pytest_generate_tests, record, store, url

__all__ = ["alter", "path", "pytest_generate_tests", "record", "store", "url"]
