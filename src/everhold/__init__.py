"""everhold."""
