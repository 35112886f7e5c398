"""Holdouts whose rows arrive over time: trees in `growth`, appending in `appending`, queries in the others."""
