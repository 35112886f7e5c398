"""Metrics of models: how good predictions are, for one model or for two, for all rows or for some.

Read in this order:

- `registry`: the list of metrics, with what is promised of each;
- `label_query`, `row_scores`: predictions compared with labels row by row, and the metrics that are means of that;
- `score_parts`, `measures`: the parts of each other metric, and how its interval is made of them;
- `query`: the query about a metric, compiled in one way whatever the metric is;
- `scores`, `ranking`: the functions `metric`, `precision`, `recall`, `auc` and `f1`;
- `models`: cross-validation, comparisons, and slices of rows.
"""
