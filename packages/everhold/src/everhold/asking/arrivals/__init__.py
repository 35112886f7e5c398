"""Holdouts whose rows arrive: `growth` has the trees, `appending` the act, the others the queries."""
