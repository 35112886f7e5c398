"""Declared families: queries that are described before anybody asks, and pay by their description alone (S10)."""
