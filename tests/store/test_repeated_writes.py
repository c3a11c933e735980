"""A repeated end is the own write only if all of its values are equal."""

from __future__ import annotations

import pytest

from tests.store.conftest import Store
from tests.store.test_claims import NOT_OURS
from tests.store.writes import ENDS, Write, named


@named(ENDS)
@pytest.mark.parametrize("word", list(NOT_OURS))
async def test_an_end_that_differs_in_one_value_is_not_the_own_write(
    store: Store, write: Write, word: str
) -> None:
    claim = await store.running()
    assert await write(store, claim) is True
    await store.change(**NOT_OURS[word])
    assert await write(store, claim) is False
