"""Pipelines of a careless user's, for the simulator."""

from __future__ import annotations

import socket
import subprocess
import sys

from pydantic import BaseModel

from piecework import Context, Document, Pipeline, Stage


class Text(BaseModel):
    """A chunk of a document."""

    text: str = ""


def split(document: Document) -> list[Text]:
    """Make one chunk of a document."""
    return [Text(text=document.text[:20])]


def ask(_: Context[Text]) -> str:
    """Call a provider with a blocking client."""
    with socket.create_connection(("127.0.0.1", 9), timeout=1):
        return "asked"


def run(_: Context[Text]) -> str:
    """Start a process."""
    subprocess.run([sys.executable, "-V"], check=True)
    return "ran"


def stumble(ctx: Context[Text]) -> str:
    """Be wrong in each schedule."""
    return ctx.payload.no_such  # type: ignore[attr-defined,no-any-return]


asking = Pipeline("asking", payload=Text, stages=[Stage(ask)], split=split)
running = Pipeline("running", payload=Text, stages=[Stage(run)], split=split)
stumbling = Pipeline("stumbling", payload=Text, stages=[Stage(stumble)], split=split)
