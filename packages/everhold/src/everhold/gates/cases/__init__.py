"""Gates about cases.

Read `results` are the runs, `evidence` their units, `challenge` the claim, `gate` and `open_challenge` the acts.
"""
