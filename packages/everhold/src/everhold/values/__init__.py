"""Row values of queries: expressions, functions, and the grid on which their values are summed."""
