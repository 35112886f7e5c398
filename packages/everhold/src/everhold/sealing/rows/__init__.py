"""Evaluation of queries on sealed rows: `row_store` is the protocol, `table` the store of an embedded file."""
