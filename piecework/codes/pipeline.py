"""Codes of the user's pipeline, found at its import, before anything runs."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "pipeline.artifact.bad_name",
        _P,
        "The name of an artifact could be a path.",
        "Use only letters, digits, `.`, `-` and `_`.",
    ),
    Code(
        "pipeline.declaration.invalid",
        _P,
        "The pipeline's declaration breaks a rule, for example about stages, "
        "pivot or compensation.",
        "Correct the declaration at the place that the message names.",
    ),
    Code(
        "pipeline.module.failed",
        _P,
        "The module of the pipeline raised an error during its import.",
        "Import it alone: `python -c 'import MODULE'`.",
    ),
    Code(
        "pipeline.module.not_found",
        _P,
        "The module of the pipeline cannot be imported.",
        "Write `package.module:pipeline`, and run where that package can be imported.",
    ),
    Code(
        "pipeline.object.not_a_pipeline",
        _P,
        "The name after the colon does not exist or is not a Pipeline.",
        "Write `package.module:name` with the name of a `piecework.Pipeline`.",
    ),
    Code(
        "pipeline.stage.not_run",
        _P,
        "A stage requested the result of a stage that has not run before it.",
        "Move the required stage before it in `stages`.",
    ),
    Code(
        "pipeline.simulation.out_of_reach",
        ErrorClass.PERMANENT,
        "A function of a simulated pipeline tried to use the network.",
        'Replace it in the simulation; see the README, "Simulate your own".',
    ),
)
