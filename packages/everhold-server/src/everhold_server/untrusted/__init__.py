"""Strangers' files: a worker process with hard limits reads each of them; its form is told by its content."""
