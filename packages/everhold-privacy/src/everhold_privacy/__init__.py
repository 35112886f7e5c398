"""Everhold privacy."""
