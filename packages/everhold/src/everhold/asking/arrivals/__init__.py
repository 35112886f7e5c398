"""Holdouts whose rows arrive: `growth` has the trees, `appending` the act, `over_time` the queries."""
