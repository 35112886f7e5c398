"""What a question computes from a row: expressions, functions, and the grid on which their values are summed."""
