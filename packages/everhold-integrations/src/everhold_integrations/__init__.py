"""Everhold integrations."""
