"""The choices of options: in a file of their own, because they load nothing else."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"


class EffectOutcome(StrEnum):
    """The values of `effects resolve --outcome`."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did-not-happen"
