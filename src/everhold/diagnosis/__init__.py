"""Do the rows depend on each other? Looks at the training rows only, so that nothing of the sealed ones leaks."""

from everhold.diagnosis.diagnosis import Diagnosis, diagnose_file, diagnose_rows, informed, warn_of_dependence
from everhold.diagnosis.findings import Finding

__all__ = ["Diagnosis", "Finding", "diagnose_file", "diagnose_rows", "informed", "warn_of_dependence"]
