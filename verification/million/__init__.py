"""Compare the bill of `jobs cost` with one by hand, from counted requests of a run."""
