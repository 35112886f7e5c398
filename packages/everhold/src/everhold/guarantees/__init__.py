"""What may be claimed: each theorem is a pure function with its number."""
