"""The way of a question, from the analyst to the answer."""
