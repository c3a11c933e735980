"""Compare Piecework with alternative systems on the same work in the same run."""
