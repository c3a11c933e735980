"""A pipeline whose stages return and raise far too much: loaded by the true worker."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage

#: Characters of what is too large: four times what may be, and what Fargate charges by.
GIANT = 48 * 1024 * 1024
WAYS = ("result", "message", "note", "deep", "wide", "fine")


class Bomb(BaseModel):
    """A chunk, and what it does."""

    way: str
    more: Any = None


async def burst(ctx: Context[Bomb]) -> Any:
    """Do far too much."""
    match ctx.payload.way:
        case "result":
            return "x" * GIANT
        case "message":
            raise ValueError("y" * GIANT)
        case "note":
            error = ValueError("it failed")
            error.add_note("z" * GIANT)
            raise error
        case "deep":
            found: Any = []
            for _ in range(200):  # deeper than a value may be
                found = [found]
            return found
        case "wide":
            return [0] * 6_000_000
    return "fine"


async def after(ctx: Context[Bomb]) -> int:
    """Read what the stage before returned."""
    return len(str(ctx.result(burst)))


heavy = Pipeline(name="heavy", payload=Bomb, stages=[Stage(burst), Stage(after)])
