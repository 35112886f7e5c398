"""Tools of theory: Bayesian privacy by enumeration, inference after selection, exact laws, and published statements."""
