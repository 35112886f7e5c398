"""Wire format of queries and answers between a service and its clients: JSON, and predictions as table files."""
