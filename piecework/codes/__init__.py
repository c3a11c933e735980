"""The registry of error codes: the cause of each, and the next step for the user.

A code has the form `layer.kind.detail`. Released codes are never renamed, because
tables, alarms and users' programs contain them. The layers, one file each (`http`
serves two):

    llm       a call to a model               submit    submitting a job
    tool      a call to any other service     job       a job as a whole
    aws       SQS, DynamoDB, S3               redrive   redriving dead letters
    runtime   the worker and its state        config    settings
    input     the input of `submit`           embedded  the emulator on this machine
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
