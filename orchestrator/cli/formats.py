"""The forms of a result; in a module of its own, since every command needs the names."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
