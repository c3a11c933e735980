"""The entry points of names that a person types: a path, a folder, an input in S3."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from piecework import Pipeline, Stage
from piecework.context import Context
from piecework.errors import PieceworkError, UsageError
from piecework_orchestrator.results.files import make_folder, whole_file
from piecework_orchestrator.submit.intake.source import chunk_inputs


class Anything(BaseModel):
    """A payload."""


async def stage(ctx: Context[Anything]) -> None:
    """Do nothing."""


PIPELINE = Pipeline(name="p", payload=Anything, stages=[Stage(stage)])


async def s3_input(name: str) -> bool:
    """Be the key, or the bucket, of an input in S3; S3 may not be asked."""

    class Nothing:
        async def get_object(self, **asked: Any) -> Any:
            raise AssertionError(asked)

    async def ask(source: str) -> None:
        async for _ in chunk_inputs(source, PIPELINE, s3=Nothing()):
            pass

    key = name if name.endswith(".jsonl") else f"{name}/x.jsonl"
    as_key = await refused(ask(f"s3://bucket/{key}"))
    return as_key and await refused(ask(f"s3://{name}/x.jsonl"))


def no_path(name: str) -> bool:
    """Return whether no file can be called so; what can be is a person's own choice."""
    return "\0" in name or "\ud800" in name or len(name) > 4_096


def export_to(folder: Path) -> Callable[[str], bool]:
    """Be the file of `dlq export --to`: refused with a code, never a crash."""

    def refuses(name: str) -> bool:
        try:
            with whole_file(folder / f"export{name}"):
                pass
        except UsageError:
            return True
        return not no_path(name)

    return refuses


def save_into(folder: Path) -> Callable[[str], bool]:
    """Be the folder of `results --save`: refused with a code, never a crash."""

    def refuses(name: str) -> bool:
        try:
            if no_path(name):
                make_folder(folder / name)
        except UsageError:
            return True
        return not no_path(name)

    return refuses


async def submitted(name: str) -> bool:
    """Be the path of an input: refused with a code, never a crash."""

    async def ask() -> None:
        async for _ in chunk_inputs(f"none/{name}", PIPELINE):
            pass

    return await refused(ask())


async def refused(asked: Awaitable[Any]) -> bool:
    """Return whether something is refused with a code of ours."""
    try:
        await asked
    except PieceworkError:
        return True
    return False
