"""Submit a job: read its input, write its manifest, forecast it, start it."""
