"""The laboratory: attacks, experiments and published statements that everhold is measured against.

Begin with `analysts`, the people who use and abuse a holdout. `audit` lets them play against a planned configuration,
`experiments` repeats the figures of papers and our own (`running` plays them and writes the report), and `demo` tells
the whole idea on real flights. `published` has the statements that the literature proves, `releases` its mechanisms
that no holdout uses, and `sources` evaluates three sources item by item. Mechanisms of holdouts are imported from
everhold and everhold-privacy.
"""
