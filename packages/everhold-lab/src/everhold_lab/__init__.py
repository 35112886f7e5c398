"""The laboratory of everhold: what proves it, attacks it, repeats the papers and shows it."""
