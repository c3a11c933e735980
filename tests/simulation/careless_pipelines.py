"""Pipelines of a careless user's, for the simulator."""

from __future__ import annotations

import socket
import subprocess
import sys

from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Document,
    Effect,
    Pipeline,
    RetryPolicy,
    Stage,
)


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


# ── effects with a short timeout, and calls of the network ────────────────────

retry = RetryPolicy(attempts=3, base=0.1)


async def find(amount: int, *, idempotency_key: str) -> str | None:
    """Find an executed payment; the simulator replaces it."""
    raise AssertionError(amount, idempotency_key)


finding = Dependency("bank", effect=Effect.LOOKUP, lookup=find, timeout=2, retry=retry)
once = Dependency("post", effect=Effect.NON_IDEMPOTENT, timeout=0.5, retry=retry)


@finding.call
async def pay(amount: int, idempotency_key: str = "") -> str:
    """Pay at once."""
    return f"paid {amount} {idempotency_key}"


@once.call
async def send(text: str) -> str:
    """Send at once."""
    return text


async def hurry(ctx: Context[Text]) -> str:
    """Pay and send."""
    return await pay(len(ctx.payload.text)) + await send(ctx.payload.text)


@Dependency("web").call
async def fetch(text: str) -> str:
    """Use the network."""
    with socket.create_connection(("127.0.0.1", 9), timeout=1):
        return text


async def fetched(text: str) -> str:
    """Stand for `fetch`."""
    return text


def fetched_plainly(text: str) -> str:
    """Stand for `fetch`, too."""
    return text


async def gather(ctx: Context[Text]) -> str:
    """Call a function that uses the network, in each way."""
    web = fetch.dependency
    text = await fetch(ctx.payload.text) + await ctx.call(web, fetch.function, "x")
    return text + await ctx.call(web, fetch, "y")


hasty = Pipeline("hasty", payload=Text, stages=[Stage(hurry)], split=split)
gathering = Pipeline("gathering", payload=Text, stages=[Stage(gather)], split=split)

DECLARED = {fetch: fetched}
BARE = {fetch.function: fetched_plainly}
SPARE = {fetch: fetched, send: fetched}
OF_A_TEXT = {"fetch": fetched}
TO_A_TEXT = {fetch: "fetched"}
OF_A_LAMBDA = {lambda text: text: fetched}
NO_MAPPING = [fetch, fetched]
