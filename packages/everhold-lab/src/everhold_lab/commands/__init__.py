"""Commands that the laboratory adds to the command line: `lab`, `audit`, `demo` and `dependence quilts`."""
