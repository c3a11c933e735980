"""Refuse the columns and keys of rows that no field of the payload reads.

A model ignores what it does not know. So a header with a typing error would leave a
field at its default, and the job would be paid for without the data. A model permits
further columns by `extra="allow"`, or by `extra="ignore"` of its own. A validator that
sees the whole row, before its fields are read, may read any column.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel
from pydantic.fields import FieldInfo

from piecework.errors import UsageError

#: What separates cells elsewhere, by its name.
DELIMITERS: Final = {";": "`;`", "\t": "a tab", "|": "`|`"}
#: Names that a message has at most, and the characters of each.
SHOWN: Final = 5
SHOWN_LENGTH: Final = 64
PERMIT: Final = 'model_config = ConfigDict(extra="ignore")'


def aliases(field: FieldInfo) -> list[str]:
    """Return the other names by which a model reads a field."""
    alias = field.validation_alias
    found = alias.choices if isinstance(alias, AliasChoices) else [alias]
    first = [a.path[0] if isinstance(a, AliasPath) else a for a in found]
    return [name for name in first if isinstance(name, str)]


@functools.lru_cache(1_024)
def columns_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the field that reads each column, by the name of the column."""
    config = model.model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        others = aliases(field) if config.get("validate_by_alias", True) else []
        if by_name or not others:
            found[name] = name
        found |= dict.fromkeys(others, name)
    return found


@functools.lru_cache(1_024)
def permits_others(model: type[BaseModel]) -> bool:
    """Return whether a model says that rows may have columns of no field."""
    validators = model.__pydantic_decorators__.model_validators.values()
    return (
        model.model_config.get("extra") in {"allow", "ignore"}
        or issubclass(model, RootModel)
        or any(each.info.mode != "after" for each in validators)
    )


def without_blanks(model: type[BaseModel], names: Sequence[str]) -> list[str]:
    """Return the names of columns without the blanks around them.

    A name stays as it is if a field has just this name.
    """
    known = columns_of(model)
    return [name if name in known else name.strip() for name in names]


def row_without_blanks(
    model: type[BaseModel], row: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a row with the names of its columns without blanks, if all then differ."""
    names = without_blanks(model, list(row))
    if len(set(names)) < len(names) or names == list(row):
        return row
    return dict(zip(names, row.values(), strict=True))


def unread(model: type[BaseModel], names: Collection[Any]) -> list[str]:
    """Return the columns that no field reads, in their order."""
    known = columns_of(model)
    if permits_others(model) or known.keys() >= set(names):
        return []
    return [str(name) for name in names if name not in known]


def require_read(
    where: str,
    model: type[BaseModel],
    names: Collection[str],
    origin: str,
    what: str = "columns",
) -> None:
    """Refuse a table with columns, or a row with keys, that no field reads.

    Raises:
        UsageError: `input.columns.unknown`.
    """
    if found := unread(model, names):
        text = f"{where} has {what} that no field of {model.__name__} reads: "
        text += named(model, found, names)
        raise unknown_columns(text, model, names, origin)


def require_row_read(where: str, payload: Any, row: Any, origin: str) -> None:
    """Refuse a row with keys that no field reads, at any depth of its models.

    Raises:
        UsageError: `input.columns.unknown`.
    """
    for path, model, keys in unread_parts(payload, row, ()):
        what = f"keys at {'.'.join(path)}" if path else "keys"
        require_read(where, model, keys, origin, what)


def unread_parts(
    read: Any, given: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], list[str]]]:
    """Yield the path of each model, the model, and the keys that it was given.

    `read` is what validation made of `given`, so it names the models of a union, too.
    """
    if isinstance(read, RootModel):
        read = read.root
    if isinstance(read, BaseModel) and isinstance(given, Mapping):
        model, keys = type(read), list(given)
        yield path, model, keys
        fields = columns_of(model)
        inner = [
            (key, getattr(read, fields[key], None)) for key in keys if key in fields
        ]
    elif isinstance(read, Mapping) and isinstance(given, Mapping):
        inner = [(key, read.get(key)) for key in given]
    elif isinstance(read, list | tuple) and isinstance(given, list | tuple):
        inner = list(enumerate(read[: len(given)]))
    else:
        return
    for key, part in inner:
        if isinstance(given[key], Mapping | list | tuple):
            yield from unread_parts(part, given[key], (*path, str(key)))


# ── say what is wrong, and what was meant ─────────────────────────────────────


def named(model: type[BaseModel], found: Sequence[str], names: Collection[str]) -> str:
    """Return unknown names in words, each with the name that may be meant."""
    words = []
    for name in found[:SHOWN]:
        near = meant(model, name, names)
        hint = f" (did you mean {near!r}?)" if near else ""
        words.append(f"{name[:SHOWN_LENGTH]!r}{hint}")
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return ", ".join(words + more)


def meant(model: type[BaseModel], name: str, names: Collection[str]) -> str:
    """Return the column that a name may stand for; empty: it is far from all.

    A column that the row has already is not meant.
    """
    free = {
        known.casefold(): known for known in columns_of(model) if known not in names
    }
    near = difflib.get_close_matches(name.strip().casefold(), free, n=1)
    return free[near[0]] if near else ""


def unknown_columns(
    message: str, model: type[BaseModel], names: Collection[str], origin: str
) -> UsageError:
    """Return the error of columns or keys that no field reads."""
    step = f"Rename them, or permit others: `{PERMIT}` in {model.__name__}."
    for delimiter, word in DELIMITERS.items():
        if len(names) == 1 and delimiter in (name := next(iter(names))):
            parts = [part.strip().casefold() for part in name.split(delimiter)]
            if {known.casefold() for known in columns_of(model)} & set(parts):
                message += f". Its cells seem to be separated by {word}"
                step = "Save the table with commas between the cells."
    return UsageError(
        f"{message}.", code="input.columns.unknown", next_step=step, origin=origin
    )
