"""Queries about many candidates or cells, whose answers are always told and are never a surprise.

Read in this order:

- `results`: what their results and plans share, and candidates that can be compared;
- `choice`, `scan`: the best candidate, and those above a threshold;
- `quantile`, `synthesis`: quantiles by public edges, and tables of shares.
"""
