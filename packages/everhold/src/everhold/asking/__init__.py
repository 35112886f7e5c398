"""Asking: how a query goes from the analyst through the ledger and the mechanism to an answer."""
