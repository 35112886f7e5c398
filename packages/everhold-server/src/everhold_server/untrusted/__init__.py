"""Strangers' files: a worker process with hard limits reads each of them; its format is recognized by its content."""
