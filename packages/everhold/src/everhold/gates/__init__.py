"""Gates: a champion that is replaced only by a challenger that is proved to be better.

A champion that gives way only to a challenger that is proved better. Read `gate` and `challenge`, which are
for all gates. Then `rows`: models, compared row by row; or `cases`: versions of a test suite, compared by their
results. `records` is what the ledger and the folder keep of both.
"""
