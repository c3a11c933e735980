"""A script a rival; each runs in its rival's own environment (see `protocol`)."""
