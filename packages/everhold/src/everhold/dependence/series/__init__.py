"""Models of rows in order: Markov chains and autoregressive series, known or fitted."""
