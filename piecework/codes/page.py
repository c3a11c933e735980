"""Render the registry as a Markdown page, so that the page is always up to date."""

from __future__ import annotations

from typing import Final

from piecework.codes.guide import GUIDE
from piecework.codes.registry import LAYERS
from piecework.codes.row import BEHAVIOUR, Code

_HEAD: Final = """\
# Error codes

Generated from `piecework/codes/` by `python -m piecework.codes`; do not edit.

A code has the form `layer.kind.detail`. After a release, codes are added but never
renamed, removed or moved to another class; a test checks that. The commands
`piecework explain-code` and `piecework explain-code CODE` print the same rows.

The class of a code alone decides what the runtime does:

| class | the runtime |
| --- | --- |
{behaviours}
"""

_TITLES: Final = {
    "llm": "calls to models",
    "tool": "calls to other services",
    "aws": "SQS, DynamoDB and S3",
    "runtime": "the worker and its state",
    "input": "the input of `submit`",
    "pipeline": "the pipeline's declaration",
    "submit": "submitting a job",
    "job": "a job as a whole",
    "redrive": "redriving dead letters",
    "idempotency": "functions wrapped with `idempotent`",
    "config": "settings",
    "embedded": "the emulator on this machine",
    "infra": "stacks on AWS",
    "cli": "the command line",
}


def page() -> str:
    """Return the whole page, with one table for each layer."""
    behaviours = "\n".join(
        f"| `{error_class}` | {behaviour} |"
        for error_class, behaviour in BEHAVIOUR.items()
    )
    tables = [_table(layer, rows) for layer, rows in LAYERS.items()]
    return "\n".join([_HEAD.format(behaviours=behaviours), GUIDE, *tables])


def _table(layer: str, rows: tuple[Code, ...]) -> str:
    lines = [
        f"## `{layer}`: {_TITLES[layer]}",
        "",
        "| code | class | cause | what to do |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{row.code}` | {row.error_class} | {row.cause} | {row.recovery} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"
