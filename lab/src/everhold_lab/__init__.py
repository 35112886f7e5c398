"""The demonstration and the coverage studies, run from the command line and by the tests."""
