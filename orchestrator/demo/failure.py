"""What ends the story before its end."""

from __future__ import annotations


class StoryError(Exception):
    """Something did not come about that the demo had promised; its text says what."""
