"""Gates: a champion that is replaced only by a challenger that is proved to be better.

Read `gate` and `challenge` first, which are for all gates. `rows` has gates that compare models row by row, and `cases`
has gates that compare versions by their results on a test suite. `records` has what the ledger and the folder keep.
"""
