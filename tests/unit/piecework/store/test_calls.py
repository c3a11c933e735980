"""The counters of a claim's calls keep out of the names of other values."""

from __future__ import annotations

import inspect

from piecework.store import settlements
from piecework.store.settlements import Calls


def test_no_counter_replaces_the_end_of_a_wait() -> None:
    counted = Calls(1, late=1, cached=1, paid_again=1, in_doubt=1).values
    source = inspect.getsource(settlements.Settlements)

    assert set() == {name for name in counted if f"retry_at = :{name}," in source}
