"""Render the registry as a Markdown page, so that documentation cannot lag behind."""

from __future__ import annotations

from typing import Final

from piecework.codes.guide import GUIDE
from piecework.codes.registry import LAYERS
from piecework.codes.row import BEHAVIOUR, Code

_HEAD: Final = """\
# Error codes

Generated from `piecework/codes/` by `python -m piecework.codes`; do not edit.

A code is `layer.kind.detail`. Codes are added, never renamed, removed or moved to
another class: a test holds them to the list of the last release. The commands
`piecework explain-code` and `piecework explain-code CODE` print the same as this page.

Its class alone decides what the runtime does:

| class | the runtime |
| --- | --- |
{behaviours}
"""

_TITLES: Final = {
    "llm": "calls to models",
    "tool": "calls to other services",
    "aws": "SQS, DynamoDB and S3",
    "runtime": "the worker and its state",
    "input": "what is handed to `submit`",
    "pipeline": "the pipeline's declaration",
    "submit": "making a job",
    "job": "looking at a job",
    "redrive": "sending dead letters back",
    "idempotency": "functions wrapped with `idempotent`",
    "config": "settings",
    "embedded": "the emulator on this machine",
    "infra": "stacks on AWS",
    "cli": "the command line",
}


def page() -> str:
    """Return the whole page: one table a layer."""
    behaviours = "\n".join(
        f"| `{known}` | {does} |" for known, does in BEHAVIOUR.items()
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
