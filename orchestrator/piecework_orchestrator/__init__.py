"""Submit and operate: the requests of operators and programs to a pipeline."""
