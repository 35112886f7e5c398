"""Files of unknown senders, each read by a worker process with hard limits. Formats are recognised by content."""
