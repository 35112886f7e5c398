"""Which competitions everybody may see without logging in: those that their steward has published, at first none."""
