"""The registry of error codes: what each means and what to do, so none needs guessing.

A code is `layer.kind.detail`. Codes are added, never renamed: tables, alarms and
users' own programs hold them. The layers, one file each (`http` serves two):

    llm       a call to a model               submit    making a job
    tool      a call to any other service     job       looking at a job
    aws       SQS, DynamoDB, S3               redrive   sending dead letters back
    runtime   the worker and its state        config    settings
    input     what the user hands over        embedded  the emulator on this machine
    pipeline  the user's declaration          cli       the command line

    infra         stacks on AWS
    idempotency   functions outside a pipeline, wrapped with `idempotent`
"""

from __future__ import annotations

from piecework.codes.registry import (
    LAYERS,
    REGISTRY,
    UnknownCodeError,
    is_well_formed,
    lookup,
)
from piecework.codes.row import BEHAVIOUR, Code, ErrorClass

__all__ = [
    "BEHAVIOUR",
    "LAYERS",
    "REGISTRY",
    "Code",
    "ErrorClass",
    "UnknownCodeError",
    "is_well_formed",
    "lookup",
]
