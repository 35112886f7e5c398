"""Intervals of comparisons of two models or two arms: start with `gains` and `arms`."""
