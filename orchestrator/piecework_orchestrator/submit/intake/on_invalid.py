"""The values of `--invalid`: apart, because every command reads its options."""

from __future__ import annotations

from enum import StrEnum


class OnInvalid(StrEnum):
    """The values of `--invalid`: what happens to a row that is refused."""

    REFUSE = "refuse"
    SKIP = "skip"
    DEAD = "dead"
