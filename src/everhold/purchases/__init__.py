"""What one budget pays for beside means: choices, quantiles, vectors, low-sensitivity statistics; one file for each.

An analyst writes a `PricedQuery`. Prepared for one holdout it becomes a `Purchase`, which knows what to look at on the
sealed rows, how the mechanism answers, and how the ledger's entry reads to the analyst.
"""
