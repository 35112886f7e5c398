"""Where rows live and who adds them up: one protocol, one file for each engine."""
