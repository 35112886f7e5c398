"""How questions and answers travel between a service and whoever asks it: as JSON, and predictions as table files."""
