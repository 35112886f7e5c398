"""The experiments: the demonstration and the coverage studies."""
