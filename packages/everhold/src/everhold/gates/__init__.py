"""Gates: a champion that is replaced only by a challenger that is proved to be better.

Read `gate` and `challenge` first, which are for all gates. `rows` and `candidates` are for gates that compare models
row by row, and `cases` is for gates that compare versions by their results on a test suite. `records` defines what the
ledger and the holdout's folder store.

For gates about cases: `results` checks results, which `files` reads, and `units` decides whether they prove a claim.
`opening` checks the claims of a new gate, `open_challenge` hands out cases in batches, and `checks` compares with a
fixed baseline. `steps` computes which gains can be proved, and `nights` simulates an optimiser.
"""
