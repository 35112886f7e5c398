"""What the literature proves, as functions: begin with `classical`.

`thresholdout` and `bayesian_privacy` are Zhao 2017. `post_selection` has max-information and inference after a session,
`curves` has privacy curves that no mechanism of the product has. Statements about whole sessions are in `published`.
"""
