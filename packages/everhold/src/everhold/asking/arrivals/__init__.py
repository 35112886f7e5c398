"""Holdouts whose rows arrive over time: `growth` has the trees, `appending` adds rows, and the others report."""
