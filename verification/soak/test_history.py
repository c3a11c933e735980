"""The history checker finds every planted fault, under its rule's name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from piecework.domain.moments import iso
from verification.soak.faults import FAULTS, delete_while_cancelling
from verification.soak.history import RULES, SIMULATED, check
from verification.soak.planting import History
from verification.soak.sample import LIMITS, clean

#: What is asked of a history when it is over.
END = "left-open", "refused-but-done", SIMULATED
PLANTED = [(rule, fault) for rule, faults in FAULTS.items() for fault in faults]


def test_a_clean_history_passes() -> None:
    assert [] == check(clean().values(), LIMITS)


@pytest.mark.parametrize(("rule", "fault"), PLANTED)
def test_a_planted_fault_is_found_under_its_name(rule: str, fault: str) -> None:
    history = History()
    FAULTS[rule][fault](history)
    assert rule in history.rules()


def test_a_renewal_that_arrives_after_its_lease_extends_nothing() -> None:
    history = History()
    history.move("given back", after="renewed")
    over = history.change("renewed").at - LIMITS.clock_skew_s
    history.fake("renewed", claim_expires_at=iso(over))
    assert "settled-by-its-owner" not in history.rules()


@pytest.mark.parametrize(("share", "found"), [(0.4, True), (0.5, False)])
def test_half_a_lease_of_silence_is_enough_once_the_written_end_has_passed(
    share: float, *, found: bool
) -> None:
    history = History()
    back = history.change("renewed").at + share * LIMITS.lease_s
    history.records["given back"] = replace(history.change("given back"), at=back)
    history.fake("renewed", claim_expires_at=iso(back))
    assert found == ("settled-by-its-owner" in history.rules())


def test_a_chunk_that_a_cancel_sweeps_needs_no_message() -> None:
    history = History()
    delete_while_cancelling(history)
    assert "acknowledged-after-its-end" not in history.rules()


def test_there_is_a_fault_for_every_rule() -> None:
    assert {*RULES, *END} == FAULTS.keys()


def test_a_violation_says_where_and_when() -> None:
    history = History()
    history.fake("second claim", fence=1)
    found = check(history.records.values(), LIMITS)[0]
    assert "I4 invariants: T#default#J#trip CHUNK#00000000" in str(found)
