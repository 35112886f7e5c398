"""Intervals of ratios, and of comparisons of two models or two arms: `ratios` and `outcome_gain` first."""
