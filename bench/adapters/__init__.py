"""The systems under comparison: Piecework, and each rival."""
