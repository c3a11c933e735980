"""Read the results of a job, and write them to files."""
