"""A short digest of each argument of a call, to name the one that differs later.

The key of a call is made of all arguments together. If a repeated stage misses it, the
digests say which argument is another one. Each field of a model, a dataclass and a dict
has its own, so that `request.at` is named.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from piecework.domain import keys
from piecework.domain.arguments import arguments_text
from piecework.domain.packed import packed, read_packed
from piecework.errors import PermanentError, UsageError

#: Characters of a digest: enough to see that an argument differs.
LENGTH: Final = 6
#: Arguments and fields, at most, that have a digest.
MOST: Final = 24
#: Characters of a key: enough to tell the calls of a chunk apart.
KEY_LENGTH: Final = 8


def argument_digests(
    chunk: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> dict[str, str]:
    """Return the digests of the arguments of a call, by their names.

    `chunk`: the name of the chunk. Equal arguments of two chunks have two digests, so
    that no list of digests tells short arguments.
    """
    try:
        named = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    found: dict[str, str] = {}
    for name, value in _places(named):
        if len(found) == MOST:
            break
        with suppress(UsageError):  # a field that only a model's own form can write
            text = arguments_text([value], {})
            found[name] = keys.sha256_of(chunk, name, text)[:LENGTH]
    return found


def _places(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each argument, or the fields of one that has fields."""
    for name, value in named.items():
        fields = _fields(value)
        if fields:
            yield from ((f"{name}.{field}", each) for field, each in fields.items())
        else:
            yield name, value


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a value by name; empty: it has none, or odd ones."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        return {name: getattr(value, name, None) for name in names}
    if isinstance(value, dict) and all(
        isinstance(name, str) and name.isidentifier() for name in value
    ):
        return value
    return {}


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the arguments whose digests are not the same."""
    names = dict.fromkeys([*now, *before])
    return [name for name in names if before.get(name) != now.get(name)]


# ── on a page of the journal ──────────────────────────────────────────────────
#
# {"text request.at": {"0f3a…": "1f2e3d4c5b6a"}}: the names once, then for each call
# the digests one after the other.


def pack_digests(calls: Mapping[str, Mapping[str, str]]) -> bytes | None:
    """Return the digests of some calls, by their keys; None: there are none."""
    groups: dict[str, dict[str, str]] = {}
    for key, digests in calls.items():
        if digests:
            group = groups.setdefault(" ".join(digests), {})
            group[key[:KEY_LENGTH]] = "".join(digests.values())
    return packed(groups) if groups else None


def read_digests(item: Mapping[str, Any], name: str) -> dict[str, dict[str, str]]:
    """Return the digests by the beginning of the key of each call.

    They only name what differs, so a damaged attribute has none.
    """
    found: dict[str, dict[str, str]] = {}
    if name not in item:
        return found
    with suppress(PermanentError, AttributeError, TypeError):
        for names, group in read_packed(item, name, "The digests of a page").items():
            for key, text in group.items():
                parts = [text[i : i + LENGTH] for i in range(0, len(text), LENGTH)]
                found[key] = dict(zip(names.split(" "), parts, strict=False))
    return found
