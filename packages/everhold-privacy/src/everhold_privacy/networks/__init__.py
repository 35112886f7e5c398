"""Rows whose dependence is a graph. Begin with `models`; `bounds` says what the dependence costs."""
