"""Render the registry as a Markdown page, so that documentation cannot lag behind."""

from __future__ import annotations

from typing import Final

from piecework.codes.registry import LAYERS
from piecework.codes.row import Code

_HEAD: Final = """\
# Error codes

Generated from `piecework/codes/` by `python -m piecework.codes`; do not edit.

A code is `layer.kind.detail`. Codes are added, never renamed. Its class alone decides
what the runtime does:

| class | the runtime |
| --- | --- |
| `transient` | retries with full jitter in the budget, then tries the chunk again |
| `permanent` | compensates and writes a dead letter |
| `semantic` | does not repeat the same request; as `permanent` |
| `policy` | does not repeat the same input; as `permanent` |
| `state` | restores the last checkpoint and tries the chunk again |
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
    "config": "settings",
    "embedded": "the emulator on this machine",
    "cli": "the command line",
}


def page() -> str:
    """Return the whole page: one table a layer."""
    tables = [_table(layer, rows) for layer, rows in LAYERS.items()]
    return "\n".join([_HEAD, *tables])


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
