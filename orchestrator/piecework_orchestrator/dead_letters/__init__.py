"""Read dead letters, and redrive, compensate or discard them after a fix."""
