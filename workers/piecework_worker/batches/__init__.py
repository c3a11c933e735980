"""Gather what chunks ask in the batch lane, and bring their answers back."""

from piecework_worker.batches.collector import Collector

__all__ = ["Collector"]
