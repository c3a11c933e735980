"""Run the stages of a chunk, decide on failures, and compensate."""
