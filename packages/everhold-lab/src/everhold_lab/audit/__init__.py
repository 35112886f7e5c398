"""Simulated analysts against a configuration: begin with `audit`, then `coverage` and `boards`."""
