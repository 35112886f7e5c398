"""Rows on a graph: begin with `models`; `factors` and `inference` compute, `bounds` says what dependence costs."""
