"""The fields of a row: each names an attribute of its item, what it means and its type.

A row declares its attributes as fields. Code reads them by name; mypy knows the type of
each; `docs/reference/rows.md` is printed from the declarations.

A field checks its attribute when it is read, so that a reader pays only for what it
uses, and a damaged attribute stops only those who need it. A field is a property: its
getter is one function, made once for its attribute, because each claim reads dozens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from piecework.domain import records

if TYPE_CHECKING:
    from typing import Self

T_co = TypeVar("T_co", covariant=True)


class Record(Protocol):
    """What has fields: an item, and its name for messages."""

    @property
    def item(self) -> Mapping[str, Any]:
        """The item as the table has it."""

    @property
    def what(self) -> str:
        """The record in words, such as `The record of chunk j/3`."""


class Field(property, Generic[T_co]):
    """An attribute of a row.

    Attributes:
        kind: The type that the attribute has in the table, in words.
        meaning: What it is, and what it means that a row lacks it.
        attribute: Its name in the table; it is the field's own unless given.
    """

    kind = "text"

    def __init__(self, meaning: str, attribute: str = "") -> None:
        super().__init__()
        self.meaning, self.attribute = meaning, attribute

    def __set_name__(self, owner: type, name: str) -> None:
        """Make the getter for the attribute."""
        self.attribute = self.attribute or name
        super().__init__(self.reader(self.attribute))
        self.__doc__ = self.meaning  # not that of the kind

    def reader(self, name: str) -> Callable[[Record], T_co]:
        """Return the function that reads the attribute of a record."""
        raise NotImplementedError

    if TYPE_CHECKING:

        @overload
        def __get__(self, row: None, owner: type) -> Self: ...
        @overload
        def __get__(self, row: object, owner: type | None = None) -> T_co: ...
        def __get__(self, row: object, owner: type | None = None) -> Any: ...


def fields_of(row: type) -> dict[str, Field[Any]]:
    """Return the fields of a row by their own names, in the order of declaration."""
    return {name: each for name, each in vars(row).items() if isinstance(each, Field)}


class Text(Field[str]):
    """A text that every row has, or every row that is asked for it."""

    def reader(self, name: str) -> Callable[[Record], str]:
        """Raise `runtime.record.unreadable` without a text."""

        def read(row: Record) -> str:
            found = row.item.get(name)
            if isinstance(found, str):  # before `what` is built: claims read this
                return found
            return records.read_text(row.item, name, row.what)

        return read


class OptionalText(Field[str]):
    """A text; empty if the row lacks it."""

    def reader(self, name: str) -> Callable[[Record], str]:
        """Raise `runtime.record.unreadable` if it is not a text."""

        def read(row: Record) -> str:
            found = row.item.get(name, "")
            if isinstance(found, str):
                return found
            return records.read_text(row.item, name, row.what)

        return read


class ShownText(Field[str]):
    """A text that is only shown; empty if the row lacks it, or if it is not a text."""

    def reader(self, name: str) -> Callable[[Record], str]:
        """Raise nothing: what is only shown keeps no chunk from its end."""

        def read(row: Record) -> str:
            found = row.item.get(name)
            return found if isinstance(found, str) else ""

        return read


class AnyText(Field[str]):
    """What a row has, as a text; empty if the row lacks it."""

    def reader(self, name: str) -> Callable[[Record], str]:
        """Raise nothing."""
        return lambda row: str(row.item.get(name, ""))


class Number(Field[int]):
    """A whole number that every row has, `least` or more."""

    kind = "number"

    def __init__(self, meaning: str, attribute: str = "", least: int = 0) -> None:
        super().__init__(meaning, attribute)
        self.least = least

    def reader(self, name: str) -> Callable[[Record], int]:
        """Raise `runtime.record.unreadable` without such a number."""
        least = self.least
        return lambda row: records.read_int(row.item, name, row.what, least)


class Count(Field[int]):
    """A whole number; 0, or another one, if the row lacks it."""

    kind = "number"

    def __init__(self, meaning: str, attribute: str = "", default: int = 0) -> None:
        super().__init__(meaning, attribute)
        self.default = default

    def reader(self, name: str) -> Callable[[Record], int]:
        """Raise `runtime.record.unreadable` if it is not such a number."""
        default = self.default

        def read(row: Record) -> int:
            if name not in row.item:
                return default
            return records.read_int(row.item, name, row.what)

        return read


class CheckedCount(Field[int]):
    """A number that was checked when the row was read; 0 if the row lacks it."""

    kind = "number"

    def reader(self, name: str) -> Callable[[Record], int]:
        """Raise nothing."""
        return lambda row: int(row.item.get(name, 0))


class OptionalNumber(Field[int | None]):
    """A whole number; None if the row lacks it."""

    kind = "number"

    def reader(self, name: str) -> Callable[[Record], int | None]:
        """Raise `runtime.record.unreadable` if it is not such a number."""

        def read(row: Record) -> int | None:
            if name not in row.item:
                return None
            return records.read_int(row.item, name, row.what)

        return read


class ShownNumber(Field[int | None]):
    """A whole number; None if the row lacks it, or if it is not a number."""

    kind = "number"

    def reader(self, name: str) -> Callable[[Record], int | None]:
        """Raise nothing."""
        return lambda row: records.read_optional_int(row.item, name)


class Present(Field[bool]):
    """Whether a row has the attribute, whatever its value."""

    kind = "present or absent"

    def reader(self, name: str) -> Callable[[Record], bool]:
        """Raise nothing."""
        return lambda row: name in row.item


class Flag(Field[bool]):
    """A truth value; false if the row lacks it."""

    kind = "true or false"

    def reader(self, name: str) -> Callable[[Record], bool]:
        """Raise nothing."""
        return lambda row: bool(row.item.get(name))


class Decoded(Field[T_co]):
    """An attribute that a function decodes; it gets None if the row lacks it."""

    def __init__(
        self,
        decode: Callable[[Any], T_co],
        meaning: str,
        attribute: str = "",
        *,
        kind: str,
    ) -> None:
        super().__init__(meaning, attribute)
        self.decode, self.kind = decode, kind

    def reader(self, name: str) -> Callable[[Record], T_co]:
        """Raise what the function raises."""
        decode = self.decode
        return lambda row: decode(row.item.get(name))


def raw(found: Any) -> Any:
    """Decode nothing."""
    return found


def name_set(found: Any) -> frozenset[str]:
    """Decode a set of names."""
    return frozenset(map(str, found or ()))


def number_set(found: Any) -> frozenset[int]:
    """Decode a set of whole numbers."""
    return frozenset(map(int, found or ()))


def text_list(found: Any) -> list[str]:
    """Decode a list of texts."""
    return [str(each) for each in found or ()]


def map_list(found: Any) -> list[dict[str, Any]]:
    """Decode a list of maps; others are left out."""
    return [dict(each) for each in found or () if isinstance(each, Mapping)]


def mapping(found: Any) -> Mapping[str, Any]:
    """Decode a map."""
    known: Mapping[str, Any] = found or {}
    return known


def seconds(found: Any) -> float:
    """Decode a span; 0 without one."""
    return float(found or 0)
