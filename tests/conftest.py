"""Puts this folder on the import path, so that the suites in `contracts` can be inherited anywhere."""
