"""Accounts of a holdout: allotments, recovery, and the end of the study."""
