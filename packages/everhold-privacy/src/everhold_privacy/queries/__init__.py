"""Queries that a privacy budget pays for: begin with `priced`, the steps that all of them share."""
