"""The way of a query, from the analyst to the answer."""
