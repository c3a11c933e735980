"""Turn the source of a submission into a stream of chunk inputs."""
