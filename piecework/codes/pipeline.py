"""Codes of the user's pipeline: found when it is imported, before anything runs."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "pipeline.artifact.bad_name",
        _P,
        "An artifact was given a name that could be a path.",
        "Name it with letters, digits, `.`, `-` and `_`.",
    ),
    Code(
        "pipeline.declaration.invalid",
        _P,
        "The pipeline's declaration breaks a rule of stages, pivot or compensation.",
        "Correct the declaration at the place that the message names.",
    ),
    Code(
        "pipeline.module.failed",
        _P,
        "The module that holds the pipeline raised while it was imported.",
        "Import it by itself: `python -c 'import MODULE'`.",
    ),
    Code(
        "pipeline.module.not_found",
        _P,
        "The module that should hold the pipeline cannot be imported.",
        "Write `package.module:pipeline` and run where that package can be imported.",
    ),
    Code(
        "pipeline.object.not_a_pipeline",
        _P,
        "The name after the colon is absent or is not a Pipeline.",
        "Write `package.module:name` with the name of a `piecework.Pipeline`.",
    ),
    Code(
        "pipeline.stage.not_run",
        _P,
        "A stage asked for the result of one that has not run before it.",
        "Put the stage that it needs before it in `stages`.",
    ),
    Code(
        "pipeline.simulation.out_of_reach",
        ErrorClass.PERMANENT,
        "A function that a simulated pipeline called reached for the network.",
        "Give it a stub in a module of yours: docs/simulate.md explains how.",
    ),
)
