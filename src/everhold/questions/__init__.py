"""What may be asked, and what an evaluated question is."""
