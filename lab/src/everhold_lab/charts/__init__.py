"""Pictures that only the laboratory draws."""
