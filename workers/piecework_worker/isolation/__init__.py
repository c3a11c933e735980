"""Run stages in child processes: a child's death costs its chunk one attempt."""

from piecework_worker.isolation.pool import Isolation

__all__ = ["Isolation"]
