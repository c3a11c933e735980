"""The figures of a soak: takeovers, cancels, and the outside ledger's account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.outcome import CompensationResult
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from verification.soak.cancels import cancels
from verification.soak.fleet import Death
from verification.soak.ledger import duplicates, for_an_operator, paid_twice, settle_up
from verification.soak.record import Change, Effect, Item, Throttling
from verification.soak.sample import PK, clean
from verification.soak.tables import odd_letters
from verification.soak.takeover import takeovers

STANDING = ("reserve", "hold", "charge", "deliver")


def changes() -> list[Change]:
    return [record for record in clean().values() if isinstance(record, Change)]


def effects(*ops: str) -> list[Effect]:
    return [
        Effect(float(at), "done", op, "saga-0", 0, f"key-{op}")
        for at, op in enumerate(ops)
    ]


def unsettled(chunk: Item, *ops: str) -> int:
    return len(settle_up(effects(*ops), {"saga-0": {0: chunk}}))


def test_a_takeover_lasts_from_the_kill_to_the_next_claim() -> None:
    told = changes()
    claims = [c.at for c in told if (c.new or {}).get("claim_token") in {"t1", "t2"}]
    death = Death("w-t1", claims[0] + 1)
    (takeover,) = takeovers(told, [death])
    again = next(c.at for c in told if (c.new or {}).get("claim_token") == "t2")
    assert pytest.approx(again - death.at) == takeover.seconds


@pytest.mark.parametrize(
    ("begun", "ended", "pk", "disturbs"),
    [
        (4, 6, PK, True),
        (-1, 4, PK, True),
        (9, 11, PK, True),
        (-1, 2, PK, False),
        (10, 11, PK, False),
        (4, 6, f"{PK}-2", False),
    ],
    ids=["within", "since before", "until after", "in the lease", "later", "another's"],
)
def test_a_takeover_is_disturbed_by_a_throttling_of_its_job_after_the_lease(
    begun: int, ended: int, pk: str, *, disturbs: bool
) -> None:
    told = changes()
    first, again = (
        next(c.at for c in told if (c.new or {}).get("claim_token") == token)
        for token in ("t1", "t2")
    )
    died = first + 1
    tenth = (again - died) / 10
    throttling = Throttling(died + begun * tenth, died + ended * tenth, pk)
    (takeover,) = takeovers(told, [Death("w-t1", died)], [throttling], 3 * tenth)
    assert disturbs is takeover.throttled


def test_what_a_dead_worker_had_settled_is_not_taken_over() -> None:
    told = changes()
    number = next(
        n for n, c in enumerate(told) if (c.new or {}).get("claim_token") == "t1"
    )
    claimed = told[number]
    deferred = {**(claimed.new or {}), "status": "WAITING", "retry_at": "later"}
    last_write = replace(claimed, at=claimed.at + 1.1, new=deferred)
    told.insert(number + 1, last_write)
    rest = [replace(c, at=c.at + 2) for c in told[number + 2 :]]
    told[number + 2 :] = rest
    assert [] == takeovers(told, [Death("w-t1", claimed.at + 1)])


def test_a_worker_without_a_chunk_is_not_taken_over() -> None:
    assert [] == takeovers(changes(), [Death("w-t9", 1_000_000.5)])


def test_a_cancel_has_quiesced_when_the_job_is_cancelled() -> None:
    base = Change(0, 10.0, PK, "META", {"status": "CANCELLING"})
    ended = replace(base, seq=1, at=11.5, new={"status": "CANCELLED"})
    calls = [Effect(at, "call", "read", "trip", 0, "k") for at in (9.0, 10.5, 12.0)]
    (cancel,) = cancels([base, ended], calls)
    assert (1.5, 1) == (cancel.seconds, cancel.calls)


def test_a_cancel_is_without_faults_if_no_fault_is_injected() -> None:
    base = Change(0, 10.0, PK, "META", {"status": "CANCELLING"})
    told = [
        cancels([base], [], calm)[0].without_faults
        for calm in ([(9.0, 11.0)], [(7.0, 9.0), (11.0, 12.0)], [])
    ]
    assert [True, False, False] == told


def test_a_cancel_that_never_ends_never_quiesces() -> None:
    base = Change(0, 10.0, PK, "META", {"status": "CANCELLING"})
    assert float("inf") == cancels([base], [])[0].seconds


def test_a_chunk_that_succeeded_has_every_effect_once() -> None:
    chunk = {"status": "SUCCEEDED"}
    assert 0 == unsettled(chunk, *STANDING)
    assert 1 == unsettled(chunk, *STANDING[:-1])
    assert 1 == unsettled(chunk, *STANDING, "charge")


def test_a_compensated_chunk_has_no_effect_left() -> None:
    chunk = {"status": "DEAD", "compensation": CompensationResult.COMPENSATED}
    assert 0 == unsettled(chunk, "reserve", "release")
    assert 1 == unsettled(chunk, "reserve", "hold", "release")


def test_a_chunk_that_died_after_its_pivot_keeps_what_was_before() -> None:
    chunk = {"status": "DEAD", "compensation": CompensationResult.PAST_PIVOT}
    assert 0 == unsettled(chunk, "reserve", "hold", "charge")
    assert 1 == unsettled(chunk, "reserve", "charge")


@pytest.mark.parametrize(
    ("status", "states", "odd"),
    [
        (ChunkStatus.DEAD, ["OPEN"], 0),
        (ChunkStatus.DEAD, ["REDRIVEN", "DISCARDED"], 0),
        (ChunkStatus.DEAD, ["REDRIVEN"], 1),
        (ChunkStatus.DEAD, ["OPEN", "OPEN"], 1),
        (ChunkStatus.SUCCEEDED, ["REDRIVEN"], 0),
        (ChunkStatus.SUCCEEDED, ["OPEN"], 1),
    ],
)
def test_a_dead_chunk_has_one_letter_that_was_not_redriven(
    status: ChunkStatus, states: list[str], odd: int
) -> None:
    ref = ChunkRef("acme", "job", 0)
    rows = [DeadLetterRow({"state": state}, ref, 1) for state in states]
    assert odd == len(list(odd_letters(rows, {0: status})))


def test_a_chunk_whose_compensation_failed_is_left_to_an_operator() -> None:
    dead = {"status": "DEAD", "compensation": CompensationResult.ABANDONED}
    told = [Change(0, 1.0, "T#default#J#saga-0", "CHUNK#00000000", dead)]
    persons = for_an_operator(told)
    assert {("saga-0", 0)} == persons
    chunks = {"saga-0": {0: {"status": "SUCCEEDED"}}}
    assert [] == settle_up(effects(*STANDING, "release"), chunks, persons)
    assert 1 == len(settle_up(effects("reserve", "hold", "deliver"), chunks, persons))


def test_an_effect_under_two_keys_is_double_only_where_keys_mean_nothing() -> None:
    twice = [Effect(1.0, "done", "charge", "j", 0, key) for key in ("a", "b")]
    assert 1 == duplicates(twice, frozenset({"charge"}))
    assert 0 == duplicates(twice, frozenset())


def test_a_paid_call_that_is_made_again_is_counted() -> None:
    calls = [Effect(1.0, "call", "read", "j", 0, key) for key in ("a", "b", "a")]
    assert 2 == paid_twice(calls)
