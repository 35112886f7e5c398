"""Reports on a holdout: certificate, transcript, status and events."""
