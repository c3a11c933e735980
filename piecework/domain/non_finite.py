"""Write NaN and infinity as the constants that Python writes.

By itself pydantic writes them as null, as a text or as a constant: the configuration
of a model decides.
"""

from __future__ import annotations

import contextlib
import functools
import json
import types
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from piecework.domain.result_types import FUNCTIONS_KEPT, result_hint


def may_be_non_finite(content: bytes) -> bool:
    """Return whether JSON may have NaN or infinity: as null, a constant or a text.

    The configuration of a model decides; an untyped field would read a text as such.
    """
    return any(word in content for word in (b"null", b"NaN", b"Infinity"))


def encode_non_finite(
    declared: Callable[..., Any], value: Any, *, by_alias: bool | None = None
) -> str | None:
    """Return a value with NaN or infinity as JSON with constants; None: it has neither.

    Pydantic's Python values keep them, except in a model in an untyped place.
    """
    write = functools.partial(
        exact_type(declared).serializer.to_python,
        (value,),
        by_alias=by_alias,
        round_trip=True,
        warnings="error",
    )
    plain = write(mode="json")
    with contextlib.suppress(ValueError, TypeError):  # of a set of models, for example
        restore(plain, write(mode="python"))
    text = json.dumps(plain[0], ensure_ascii=False, separators=(",", ":"))
    return text if "NaN" in text or "Infinity" in text else None


def restore(plain: Any, exact: Any) -> None:
    """Put NaN and infinity of Python values where their JSON values have None.

    A model in an untyped place writes its own untyped parts by its own configuration.
    A part whose JSON has another form is left alone. A serializer of the user's own
    writes it, or it is a set, whose order differs.
    """
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(plain, dict) and isinstance(exact, dict):
        pairs = zip(plain, exact.values(), strict=False)
    elif isinstance(plain, list) and isinstance(exact, list | tuple):
        pairs = enumerate(exact)
    else:
        return
    if len(plain) != len(exact):
        return
    for key, found in pairs:
        if isinstance(found, dict | list | tuple):
            restore(plain[key], found)
        elif plain[key] is None and isinstance(found, float) and not isfinite(found):
            plain[key] = found


@functools.lru_cache(FUNCTIONS_KEPT)
def exact_type(declared: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a tuple of one result, or model, that keeps NaN and infinity.

    Only a type that is not a model takes a configuration from outside.
    """
    is_model = isinstance(declared, type) and issubclass(declared, BaseModel)
    hint = declared if is_model else result_hint(declared)
    own = getattr(hint, "model_config", {})
    constants: Any = {name: own[name] for name in own if name.startswith("ser_json")}
    constants |= ConfigDict(ser_json_inf_nan="constants")
    one: Any = types.GenericAlias(tuple, (hint,))
    return TypeAdapter(one, config=constants)
