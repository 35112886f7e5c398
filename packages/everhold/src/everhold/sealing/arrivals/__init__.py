"""Rows that arrive after the sealing: `arriving` first."""
