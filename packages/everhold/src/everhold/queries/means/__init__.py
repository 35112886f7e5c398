"""Means of row values and what follows from them: `mean` is the simplest query, `batch` answers many at once."""
