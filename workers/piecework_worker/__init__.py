"""The worker process: receive, claim, carry out, settle."""
