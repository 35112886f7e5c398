"""The demonstration on real flights."""
