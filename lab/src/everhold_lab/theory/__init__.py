"""Tools of theory: Bayesian privacy by enumeration, inference after selection."""
