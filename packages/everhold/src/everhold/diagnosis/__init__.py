"""Tests of the training rows for dependence between rows, which never read sealed rows."""
