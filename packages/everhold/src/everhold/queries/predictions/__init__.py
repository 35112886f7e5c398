"""Predictions that analysts hand in: `arrays` checks them, `files` and `columns` read them from files."""
