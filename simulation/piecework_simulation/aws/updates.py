"""Parse update expressions into a function from item to item.

Every right-hand side reads the item as it was before the update, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework_simulation.aws.errors import InvalidError
from piecework_simulation.aws.expressions import END, Reader
from piecework_simulation.aws.values import (
    INVALID,
    WireItem,
    WireValue,
    canonical,
    kind_of,
    plus,
)

Compute: TypeAlias = Callable[[Mapping[str, WireValue], WireItem], WireValue]

ADDED = frozenset({"N", "SS", "NS", "BS"})
DELETED = frozenset({"SS", "NS", "BS"})
KEYS = ("pk", "sk")
WRONG_TYPE = "An operand in the update expression has an incorrect data type"


@dataclass(slots=True)
class Update:
    """The effect of an update expression on an item."""

    sets: dict[str, Compute] = field(default_factory=dict)
    removes: list[str] = field(default_factory=list)
    adds: dict[str, str] = field(default_factory=dict)
    deletes: dict[str, str] = field(default_factory=dict)

    @property
    def touched(self) -> tuple[str, ...]:
        """The attributes on a left-hand side."""
        return (*self.sets, *self.removes, *self.adds, *self.deletes)

    @property
    def only_takes_away(self) -> bool:
        """Whether it cannot create an item."""
        return not self.sets and not self.adds

    def apply(self, item: WireItem, values: WireItem) -> WireItem:
        """Return the changed item; the given one is not modified."""
        new = item.copy()
        for name, compute in self.sets.items():
            new[name] = compute(item, values)
        for name in self.removes:
            new.pop(name, None)
        for name, key in self.adds.items():
            new[name] = _added(item.get(name), values[key])
        for name, key in self.deletes.items():
            left = _without(item.get(name), values[key])
            if left is None:
                new.pop(name, None)
            else:
                new[name] = left
        return new


def read_update(reader: Reader) -> Update:
    """Return the whole of an expression as one change."""
    update, seen = Update(), set[str]()
    while reader.word != END:
        section = reader.word.upper()
        if section not in SECTIONS:
            raise reader.syntax(reader.word)
        if section in seen:
            raise reader.invalid(
                f'The "{section}" section can only be used once in an update'
                " expression;"
            )
        seen.add(section)
        reader.take()
        SECTIONS[section](reader, update)
        while reader.skip(","):
            SECTIONS[section](reader, update)
    return update


def _set(reader: Reader, update: Update) -> None:
    name = _target(reader, update)
    reader.expect("=")
    update.sets[name] = _sum(reader)


def _remove(reader: Reader, update: Update) -> None:
    update.removes.append(_target(reader, update))


def _add(reader: Reader, update: Update) -> None:
    name = _target(reader, update)
    reader.demand(reader.word, ADDED, "ADD")
    update.adds[name] = reader.value()


def _delete(reader: Reader, update: Update) -> None:
    name = _target(reader, update)
    reader.demand(reader.word, DELETED, "DELETE")
    update.deletes[name] = reader.value()


SECTIONS: Mapping[str, Callable[[Reader, Update], None]] = {
    "SET": _set,
    "REMOVE": _remove,
    "ADD": _add,
    "DELETE": _delete,
}


def _target(reader: Reader, update: Update) -> str:
    """Return the attribute that an update changes, if the update may change it."""
    name = reader.path()
    if name in KEYS:
        raise InvalidError(
            f"{INVALID}Cannot update attribute {name}. This attribute is part of the"
            " key"
        )
    if name in update.touched:
        raise reader.invalid(
            "Two document paths overlap with each other; must remove or rewrite one of"
            f" these paths; path one: [{name}], path two: [{name}]"
        )
    return name


def _sum(reader: Reader) -> Compute:
    left = _term(reader)
    sign = {"+": 1, "-": -1}.get(reader.word)
    if sign is None:
        return left
    operator = reader.take()
    for word in (reader.between(reader.mark - 2, reader.mark - 1)[0], reader.word):
        if word.startswith(":"):
            reader.demand(word, frozenset({"N"}), operator)
    right = _term(reader)

    def compute(item: Mapping[str, WireValue], values: WireItem) -> WireValue:
        one, other = left(item, values).get("N"), right(item, values).get("N")
        if one is None or other is None:
            raise InvalidError(WRONG_TYPE)
        return {"N": plus(one, other, sign)}

    return compute


def _term(reader: Reader) -> Compute:
    if reader.word == "(":
        raise NotImplementedError("an operand in brackets")
    if reader.word.startswith(":"):
        key = reader.value()
        return lambda _, values: values[key]
    if reader.calls("if_not_exists"):
        return _if_not_exists(reader)
    if reader.calls("list_append"):
        return _list_append(reader)
    return _existing(reader.path())


def _existing(name: str) -> Compute:
    def compute(item: Mapping[str, WireValue], _: WireItem) -> WireValue:
        found = item.get(name)
        if found is None:
            raise InvalidError(
                "The provided expression refers to an attribute that does not exist"
                " in the item"
            )
        return found

    return compute


def _if_not_exists(reader: Reader) -> Compute:
    name = reader.path()
    reader.expect(",")
    otherwise = _term(reader)
    reader.expect(")")

    def compute(item: Mapping[str, WireValue], values: WireItem) -> WireValue:
        found = item.get(name)
        return otherwise(item, values) if found is None else found

    return compute


def _list_append(reader: Reader) -> Compute:
    if reader.word.startswith(":"):
        reader.demand(reader.word, frozenset({"L"}), "list_append")
    first = _term(reader)
    reader.expect(",")
    if reader.word.startswith(":"):
        reader.demand(reader.word, frozenset({"L"}), "list_append")
    second = _term(reader)
    reader.expect(")")

    def compute(item: Mapping[str, WireValue], values: WireItem) -> WireValue:
        begin, end = first(item, values).get("L"), second(item, values).get("L")
        if begin is None or end is None:
            raise InvalidError(WRONG_TYPE)
        return {"L": [*begin, *end]}

    return compute


def _added(found: WireValue | None, value: WireValue) -> WireValue:
    if found is None:
        return value
    ((kind, content),) = value.items()
    if kind not in found:
        raise InvalidError(WRONG_TYPE)
    if kind == "N":
        return {"N": plus(found["N"], content)}
    return canonical({kind: list({*found[kind], *content})})


def _without(found: WireValue | None, value: WireValue) -> WireValue | None:
    if found is None:
        return None
    kind = kind_of(value)
    if kind not in found:
        raise InvalidError(WRONG_TYPE)
    gone = set(value[kind])
    left = [member for member in found[kind] if member not in gone]
    return {kind: left} if left else None
