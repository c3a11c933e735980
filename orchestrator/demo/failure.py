"""The error that stops the demo early."""

from __future__ import annotations


class DemoError(Exception):
    """A step of the demo failed; the message names the step."""
