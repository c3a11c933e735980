"""Submit and operate: what a person or a program asks of a pipeline."""
