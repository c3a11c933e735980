"""The life of a job: manifest, fan-out, fan-in, and cancellation."""
