"""Rows as a provider reads them: plain JSON, in a file that is sent in parts."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import IO, Any, Final

from piecework.errors import UsageError
from piecework.llm.lanes import TIER_OPTIONS

#: Arguments of an SDK's method beside its body, which do not matter here.
_NO_BODY: Final = TIER_OPTIONS | {"stream", "stream_options", "timeout"}
#: Arguments that a row cannot say: without them it would ask for something else.
_UNSAYABLE: Final = ("extra_headers", "extra_query")


def plain_body(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that an SDK's method would send with these parameters.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    for name in _UNSAYABLE:
        if parameters.get(name):
            raise _refused(f"has {name}, which a row of a batch cannot say")
    body = {k: v for k, v in parameters.items() if k not in {*_NO_BODY, *_UNSAYABLE}}
    body |= body.pop("extra_body", None) or {}
    with suppress(TypeError, ValueError):
        json.dumps(body)
        return body
    raise _refused("has an option that is not JSON")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"A request for the batch lane {why}.",
        code="pipeline.declaration.invalid",
        next_step="Leave the option out, or declare the model without this lane.",
    )


def as_line(value: Any) -> bytes:
    """Return a value as a line of JSON, without its end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def spooled(parts: Iterable[bytes]) -> IO[bytes]:
    """Return a temporary file with all parts, at its start; close it to delete it."""
    return await asyncio.to_thread(_spooled, parts)


def _spooled(parts: Iterable[bytes]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 -- the caller closes it
    try:
        for each in parts:
            file.write(each)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
