"""Games that play analysts against a holdout, and count broken promises."""
