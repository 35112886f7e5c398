"""Guarantees: each theorem as a pure function that names its statement."""
