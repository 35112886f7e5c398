"""Alembic migrations of the ledger, run from inside the package."""
