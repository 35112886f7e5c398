"""Queries with a price in credits of a privacy budget. `priced` has the steps that all of these queries share."""
