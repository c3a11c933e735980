"""Stages in processes of their own: what kills one costs its chunk an attempt only."""

from workers.isolation.pool import Isolation

__all__ = ["Isolation"]
