"""What each kind of field makes of a sound, a missing and a damaged attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from piecework.domain.fields import (
    AnyText,
    CheckedCount,
    Count,
    Decoded,
    Field,
    Flag,
    Number,
    OptionalNumber,
    OptionalText,
    Present,
    ShownNumber,
    ShownText,
    Text,
    fields_of,
    map_list,
    mapping,
    name_set,
    number_set,
    seconds,
    text_list,
)
from piecework.errors import PermanentError

REFUSED = object()


@dataclass(frozen=True, slots=True)
class Row:
    item: Mapping[str, Any]

    what = "The row"
    text = Text("A text.", "a")
    optional_text = OptionalText("A text.", "a")
    shown_text = ShownText("A text.", "a")
    any_text = AnyText("A text.", "a")
    number = Number("A number.", "a", least=-1)
    count = Count("A number.", "a", default=1)
    checked_count = CheckedCount("A number.", "a")
    optional_number = OptionalNumber("A number.", "a")
    shown_number = ShownNumber("A number.", "a")
    present = Present("Whether it is there.", "a")
    flag = Flag("Whether it is true.", "a")
    names = Decoded(name_set, "Names.", "a", kind="set")
    numbers = Decoded(number_set, "Numbers.", "a", kind="set")
    texts = Decoded(text_list, "Texts.", "a", kind="list")
    maps = Decoded(map_list, "Maps.", "a", kind="list")
    map = Decoded(mapping, "A map.", "a", kind="map")
    span = Decoded(seconds, "A span.", "a", kind="number")


@pytest.mark.parametrize(
    ("field", "missing", "sound", "read", "damaged", "then"),
    [
        ("text", REFUSED, "x", "x", 7, REFUSED),
        ("optional_text", "", "x", "x", 7, REFUSED),
        ("shown_text", "", "x", "x", 7, ""),
        ("any_text", "", "x", "x", 7, "7"),
        ("number", REFUSED, -1, -1, -2, REFUSED),
        ("count", 1, 0, 0, "0", REFUSED),
        ("checked_count", 0, 3, 3, 4, 4),
        ("optional_number", None, 0, 0, True, REFUSED),
        ("shown_number", None, 5, 5, "5", None),
        ("present", False, "", True, None, True),
        ("flag", False, True, True, 0, False),
        ("names", frozenset(), {"x"}, {"x"}, ["x", "x"], {"x"}),
        ("numbers", frozenset(), {1}, {1}, None, frozenset()),
        ("texts", [], ["x"], ["x"], [1], ["1"]),
        ("maps", [], [{"x": 1}], [{"x": 1}], [7, {"x": 1}], [{"x": 1}]),
        ("map", {}, {"x": 1}, {"x": 1}, None, {}),
        ("span", 0.0, 1.5, 1.5, None, 0.0),
    ],
)
def test_a_field_reads_its_attribute_or_refuses_it(
    field: str, missing: Any, sound: Any, read: Any, damaged: Any, then: Any
) -> None:
    for item, result in (({}, missing), ({"a": sound}, read), ({"a": damaged}, then)):
        row: Any = Row(item)
        if result is not REFUSED:
            assert getattr(row, field) == result
            continue
        with pytest.raises(PermanentError) as refused:
            getattr(row, field)
        assert str(refused.value) == "The row has a missing or malformed 'a'."
        assert refused.value.code == "runtime.record.unreadable"


def test_a_row_lists_its_fields_in_order_and_each_has_its_meaning() -> None:
    declared = fields_of(Row)
    assert list(declared)[:2] == ["text", "optional_text"]
    assert len(declared) == 17
    assert {each.attribute for each in declared.values()} == {"a"}
    assert Row.text.__doc__ == Row.text.meaning == "A text."
    assert isinstance(Row.names, Field)
