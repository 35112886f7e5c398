"""Gates about cases, such as the tests or evaluations of a repository.

`results` are the runs, `units` what proves a claim about them, `evidence` what a gate does with both, and how it
is opened. `open_challenge` hands out cases.
"""
