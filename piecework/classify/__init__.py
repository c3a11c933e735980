"""Turn any exception into an envelope, by its structure and never by its words."""

from __future__ import annotations

from piecework.classify.exception import classify, mark

__all__ = ["classify", "mark"]
