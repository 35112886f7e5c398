"""Sealed rows and their keys: how they are read, written, kept private and summed."""
