"""Queries about means of row values, and about numbers that are computed from such means.

Read in this order:

- `mean`: the simplest query, a text or a function, and how texts are read;
- `plans`: how one mean, several, and a parameter that follows from a few of them are priced, evaluated and presented;
- `combined`: differences and ratios, which are made of two means row by row;
- `contrast`, `distribution`, `assisted`: two arms, moments and histograms, and means with the help of a judge.
"""
