"""Commands that the laboratory adds to the program `everhold`, each by its entry point."""
