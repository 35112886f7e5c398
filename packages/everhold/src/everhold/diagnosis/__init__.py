"""Do the rows depend on each other? Looks at the training rows only, so that nothing of the sealed ones leaks."""
