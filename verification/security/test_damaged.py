"""A damaged field of an item gives an error code, no crash and no endless loop."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from piecework.domain.records import UNREADABLE
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import PermanentError
from piecework.jobs.manifest import Entry
from verification.security.damaging import damaged, lines, met
from verification.security.receiving import Note

LINES = list(lines())
#: Requests of a worker and a reconciler that meet one damaged item.
FEW = 60


async def test_an_item_that_somebody_damaged_has_a_code_and_holds_up_nobody() -> None:
    codes = set[str]()
    for each in damaged():
        outcome = await met(each)
        assert [] == outcome.crashed
        assert outcome.requests < FEW, each.what
        codes |= outcome.codes
    assert UNREADABLE in codes


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_is_no_payload_is_refused(line: bytes) -> None:
    with pytest.raises((JsonRefusedError, ValidationError)):
        Note.model_validate(read_json(line, Bounds(1_000_000)), extra="forbid")


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_is_none_of_a_manifest_is_refused(line: bytes) -> None:
    with pytest.raises(PermanentError) as caught:
        Entry.read(line)
    assert UNREADABLE == caught.value.code
