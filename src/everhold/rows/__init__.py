"""Where sealed rows live and how questions are evaluated on them."""
