"""The forms of a result: apart, so that naming them loads nothing else."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
