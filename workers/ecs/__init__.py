"""Integration with ECS: the worker's name and its task protection."""
