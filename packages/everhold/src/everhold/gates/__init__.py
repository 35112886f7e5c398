"""Gates: a champion that is replaced only by a challenger that is proved to be better.

Read `gate` and `challenge` first, which are for all gates. `rows` has gates that compare models row by row, of
`candidates`, and `cases` has gates that compare versions by their results on a test suite. `records` has what ledger
and folder keep.

About cases: `results` are the runs, read from `files`, and `units` is what proves a claim about them. `opening` seals
the claims, `open_challenge` hands out cases, and `checks` compares with a fixed baseline. `steps` says which gains can
be proved, and `nights` simulates an optimiser.
"""
