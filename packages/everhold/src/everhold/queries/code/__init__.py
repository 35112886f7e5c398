"""Functions and models of an analyst as queries: their identity, and their trial on public rows."""
