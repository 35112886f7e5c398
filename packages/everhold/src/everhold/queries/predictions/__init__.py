"""Checks and files of the predictions that analysts hand in.

Read in this order:

- `arrays`: checks of predictions by public facts, and their order by row ids;
- `files`: predictions from CSV, TSV, Parquet and Arrow files, also those of strangers;
- `columns`: files with thousands of columns, which are read a few at a time;
- `public`: what is known of two arrays before any label is looked at.
"""
