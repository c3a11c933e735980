"""Act on jobs and pipelines: cancel, pause, retry, answer, settle effects, delete."""
