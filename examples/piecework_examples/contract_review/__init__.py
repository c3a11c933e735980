"""Contract review: score, analyse and publish every clause of a contract."""

from __future__ import annotations

from piecework_examples.contract_review.review import pipeline

__all__ = ["pipeline"]
