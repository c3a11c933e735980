"""Convert any exception to an envelope by its structure, never by its message."""

from __future__ import annotations

from piecework.classify.exception import classify, envelope_of
from piecework.classify.noted import mark, noted
from piecework.classify.stop_reason import raise_for_stop_reason
from piecework.classify.translated import Translate

__all__ = [
    "Translate",
    "classify",
    "envelope_of",
    "mark",
    "noted",
    "raise_for_stop_reason",
]
