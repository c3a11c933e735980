"""The manners of a worker that is an ECS task: its name, and when it may be ended."""
