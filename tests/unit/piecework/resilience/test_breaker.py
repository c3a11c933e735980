"""The circuit breaker: when it opens, probes and closes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import (
    OPEN_CODE,
    PROBE_RETRY_S,
    REMEMBERED_S,
    BreakerPhase,
    BreakerState,
    CircuitBreaker,
    Health,
    Heard,
    Permit,
    Rejected,
    breaker_open_error,
)
from tests.unit.piecework.fakes import Highest, Lowest, envelope

RULES = CircuitBreaker(
    failure_rate=0.5, minimum_calls=4, window_calls=10, window_s=30.0, open_s=30.0
)
PROBE_S = 65.0
NOW = 1000.0


def circuit(rules: CircuitBreaker = RULES) -> BreakerState:
    return BreakerState(rules, Highest())


def through(one: BreakerState, health: Health, now: float = NOW) -> None:
    passage = one.request_permit(now, PROBE_S)
    assert isinstance(passage, Permit)
    one.record_end(passage, health, now)


def opened(rules: CircuitBreaker = RULES) -> BreakerState:
    one = circuit(rules)
    for _ in range(rules.minimum_calls):
        through(one, Health.FAILURE)
    return one


def probing(one: BreakerState, now: float = NOW + 30) -> Permit:
    passage = one.request_permit(now, PROBE_S)
    assert isinstance(passage, Permit)
    assert passage.probe_until
    return passage


def test_too_few_calls_do_not_open_it() -> None:
    one = circuit()
    for _ in range(3):
        through(one, Health.FAILURE)
    assert one.phase is BreakerPhase.CLOSED


def test_a_window_as_small_as_the_minimum_opens_it() -> None:
    rules = CircuitBreaker(failure_rate=0.5, minimum_calls=4, window_calls=4)
    assert opened(rules).phase is BreakerPhase.OPEN


@pytest.mark.parametrize(
    ("failed", "calls", "opens"),
    [
        (10, 10, True),
        (9, 10, False),
        (15, 20, True),
        (14, 20, False),
        (55, 100, True),
        (54, 100, False),
        (9, 9, False),
    ],
)
def test_it_opens_if_the_failures_beyond_the_rate_are_not_chance(
    failed: int, calls: int, *, opens: bool
) -> None:
    assert opens is CircuitBreaker().should_open(failed, calls)


def test_a_failure_rate_of_one_needs_only_failures() -> None:
    rules = CircuitBreaker(failure_rate=1.0)
    assert rules.should_open(10, 10)
    assert not rules.should_open(9, 9)
    assert not rules.should_open(99, 100)


@pytest.mark.parametrize(
    ("well", "state"), [(1, BreakerPhase.OPEN), (2, BreakerPhase.CLOSED)]
)
def test_successful_calls_keep_it_closed(well: int, state: BreakerPhase) -> None:
    one = circuit()
    for health in [Health.SUCCESS] * well + [Health.FAILURE] * 5:
        through(one, health)
    assert one.phase is state


@pytest.mark.parametrize("health", [Health.REACHABLE, Health.UNKNOWN])
def test_a_call_that_does_not_show_its_health_is_not_counted(health: Health) -> None:
    one = circuit()
    for each in [Health.FAILURE] * 3 + [health] * 9:
        through(one, each)
    assert one.phase is BreakerPhase.CLOSED
    through(one, Health.FAILURE)
    assert one.phase is BreakerPhase.OPEN


@pytest.mark.parametrize(
    ("chunks", "opens"),
    [
        ("aaaaaaaaaaaaaaaa", False),
        ("aaaaaaaaab", False),  # two failures of a chunk count, and those of another
        ("aaaaaaaabb", True),
        ("abab", True),
        ("abcd", True),
        ("ab  ab  ", False),  # a blank: the call of a chunk succeeded
    ],
)
def test_it_opens_by_the_failures_of_two_chunks(chunks: str, *, opens: bool) -> None:
    one = circuit()
    for chunk in chunks:
        health = Health.SUCCESS if chunk == " " else Health.FAILURE
        one.record_end(Permit(0), health, NOW, chunk)
    assert opens is (one.phase is BreakerPhase.OPEN)


def test_one_failure_never_opens_it_for_other_chunks() -> None:
    one = circuit(CircuitBreaker(minimum_calls=1))
    one.record_end(Permit(0), Health.FAILURE, NOW, "a")
    assert one.phase is BreakerPhase.CLOSED
    one.record_end(Permit(0), Health.FAILURE, NOW + 29.0, "b")
    assert one.phase is BreakerPhase.OPEN


def test_calls_older_than_the_window_are_forgotten() -> None:
    one = circuit()
    for _ in range(3):
        through(one, Health.FAILURE)
    through(one, Health.FAILURE, NOW + 30.1)
    assert one.phase is BreakerPhase.CLOSED


def test_only_the_last_calls_count_however_many_succeeded_before() -> None:
    one = circuit()
    for _ in range(1000):
        through(one, Health.SUCCESS)
    for _ in range(7):
        assert one.phase is BreakerPhase.CLOSED
        through(one, Health.FAILURE)
    assert one.phase is BreakerPhase.OPEN


def test_an_open_breaker_rejects_all_calls_in_its_open_period() -> None:
    one = opened()
    assert Rejected(30.0) == one.request_permit(NOW, PROBE_S)
    assert Rejected(0.5) == one.request_permit(NOW + 29.5, PROBE_S)


def test_a_half_open_breaker_allows_one_call() -> None:
    one = opened()
    probing(one)
    assert Rejected(PROBE_RETRY_S) == one.request_permit(NOW + 30, PROBE_S)


def test_a_probe_that_was_answered_closes_it() -> None:
    for health in (Health.SUCCESS, Health.REACHABLE):
        one = opened()
        one.record_end(probing(one), health, NOW + 31)
        assert one.phase is BreakerPhase.CLOSED
        assert one.request_permit(NOW + 31, PROBE_S) == Permit(one.generation)


def test_a_probe_that_failed_keeps_it_open_for_longer_up_to_a_limit() -> None:
    one, now, waits = opened(), NOW + 30.0, []
    for _ in range(5):
        one.record_end(probing(one, now), Health.FAILURE, now)
        waits.append(one.open_until - now)
        now = one.open_until
    assert waits == [60.0, 120.0, 240.0, 300.0, 300.0]


def test_a_longer_open_period_is_drawn_from_its_upper_half() -> None:
    assert 30.0 == RULES.open_period_s(1, Lowest())
    assert 30.0 == RULES.open_period_s(0, Highest())


def test_after_it_has_closed_the_first_open_period_is_short_again() -> None:
    one = opened()
    one.record_end(probing(one), Health.FAILURE, NOW + 30)
    one.record_end(probing(one, one.open_until), Health.SUCCESS, one.open_until)
    for _ in range(4):
        through(one, Health.FAILURE, NOW + 200)
    assert (NOW + 230, 0) == (one.open_until, one.failed_probes)


def test_after_a_probe_with_an_unknown_end_the_next_call_probes() -> None:
    one = opened()
    one.record_end(probing(one), Health.UNKNOWN, NOW + 31)
    assert one.phase is BreakerPhase.OPEN
    probing(one, NOW + 31)


def test_a_probe_without_an_answer_is_lost_after_its_timeout() -> None:
    one = opened()
    lost = probing(one)
    assert Rejected(1.0) == one.request_permit(NOW + 30 + PROBE_S - 1, PROBE_S)
    probing(one, NOW + 30 + PROBE_S)
    one.record_end(lost, Health.UNKNOWN, NOW + 31 + PROBE_S)
    assert Rejected(PROBE_RETRY_S) == one.request_permit(NOW + 31 + PROBE_S, PROBE_S)


@pytest.mark.parametrize("health", [Health.SUCCESS, Health.FAILURE])
def test_a_call_of_an_earlier_generation_is_ignored(
    health: Health,
) -> None:
    one = circuit(CircuitBreaker(minimum_calls=1, window_calls=10))
    early = one.request_permit(NOW, PROBE_S)
    late = one.request_permit(NOW, PROBE_S)
    assert isinstance(early, Permit)
    assert isinstance(late, Permit)
    one.record_end(early, Health.FAILURE, NOW)
    generation = one.generation
    one.record_end(late, health, NOW)
    assert (BreakerPhase.OPEN, generation) == (one.phase, one.generation)
    one.record_end(probing(one), Health.SUCCESS, NOW + 30)
    one.record_end(late, health, NOW + 30)
    assert one.phase is BreakerPhase.CLOSED


def test_what_failed_before_it_opened_does_not_open_it_again() -> None:
    one = opened()
    one.record_end(probing(one), Health.SUCCESS, NOW + 30)
    through(one, Health.FAILURE, NOW + 30)
    assert one.phase is BreakerPhase.CLOSED


def test_a_call_waits_for_the_probe_of_another_process() -> None:
    one = opened()
    one.note_other_probe(NOW + 40)
    assert Rejected(PROBE_RETRY_S) == one.request_permit(NOW + 31, PROBE_S)
    closed = circuit()
    closed.note_other_probe(NOW + 40)
    assert Permit(0) == closed.request_permit(NOW, PROBE_S)


FAILURES: list[tuple[dict[str, Any], Health]] = [
    ({"error_class": ErrorClass.TRANSIENT}, Health.FAILURE),
    ({"error_class": ErrorClass.TRANSIENT, "http_status": 503}, Health.FAILURE),
    (
        {"error_class": ErrorClass.TRANSIENT, "code": "llm.http.529_overloaded"},
        Health.FAILURE,
    ),
    ({"error_class": ErrorClass.TRANSIENT, "http_status": 429}, Health.REACHABLE),
    (
        {"error_class": ErrorClass.TRANSIENT, "code": "tool.http.429_rate_limited"},
        Health.REACHABLE,
    ),
    (
        {"error_class": ErrorClass.TRANSIENT, "code": "aws.service.throttled"},
        Health.REACHABLE,
    ),
    (
        {"error_class": ErrorClass.TRANSIENT, "code": "llm.http.malformed_body"},
        Health.REACHABLE,
    ),
    ({"error_class": ErrorClass.PERMANENT, "http_status": 404}, Health.REACHABLE),
    ({"error_class": ErrorClass.POLICY, "http_status": 403}, Health.REACHABLE),
    ({"error_class": ErrorClass.PERMANENT}, Health.UNKNOWN),
    ({"error_class": ErrorClass.SEMANTIC}, Health.REACHABLE),
    ({"error_class": ErrorClass.STATE}, Health.UNKNOWN),
    ({"error_class": ErrorClass.TRANSIENT, "code": OPEN_CODE}, Health.UNKNOWN),
    (
        {"error_class": ErrorClass.TRANSIENT, "code": "runtime.worker.exhausted"},
        Health.UNKNOWN,
    ),
]


@pytest.mark.parametrize(("facts", "health"), FAILURES)
def test_each_class_of_failure_maps_to_a_health(
    facts: dict[str, Any], health: Health
) -> None:
    assert health is RULES.health(envelope(**facts))


@pytest.mark.parametrize(
    "figures",
    [
        {"failure_rate": 0.0},
        {"failure_rate": 1.1},
        {"minimum_calls": 0},
        {"minimum_calls": 20, "window_calls": 19},
        {"window_s": 0.0},
        {"open_s": 0.0},
        {"open_s": 10.0, "max_open_s": 9.0},
    ],
)
def test_values_with_which_it_would_never_open_or_close_are_refused(
    figures: dict[str, Any],
) -> None:
    with pytest.raises(UsageError) as refused:
        CircuitBreaker(**figures)
    assert refused.value.code == "pipeline.declaration.invalid"


def test_a_rejection_keeps_its_code_as_the_cause_of_another_error() -> None:
    error = breaker_open_error("model", 12.0)
    assert (12.0, OPEN_CODE) == (error.retry_after, error.code)
    wrapped = RuntimeError("no model")
    wrapped.__cause__ = error
    assert classify(error).code == OPEN_CODE
    assert classify(wrapped).code == OPEN_CODE


def ends(one: BreakerState, chunks: str, now: float, health: Health) -> None:
    """End a call of each chunk; the calls began 5 s before."""
    for chunk in chunks:
        one.record_end(Permit(one.generation, began=now - 5), health, now, chunk)


@pytest.mark.parametrize(
    ("answered", "outlier"),
    [("xy", False), ("xyz", True), ("xyzab", False)],
    ids=["as many as fail", "one more", "the failing ones, too"],
)
def test_an_outlier_is_called_while_the_breaker_is_open_and_opens_none(
    answered: str,
    outlier: bool,  # noqa: FBT001 -- a case of the table
) -> None:
    one = circuit()
    ends(one, "abab", NOW, Health.FAILURE)
    ends(one, answered, NOW + 6, Health.SUCCESS)
    passages = {c: one.request_permit(NOW + 7, PROBE_S, c) for c in ("a", "b", "x")}
    assert [isinstance(passages[c], Permit) for c in "abx"] == [outlier] * 2 + [False]
    one.record_end(probing(one, NOW + 30), Health.SUCCESS, NOW + 31, "x")
    for later in range(20):
        ends(one, "ab", NOW + 40 + later, Health.FAILURE)
    assert (one.phase is BreakerPhase.CLOSED) is outlier


def test_answers_of_calls_that_began_before_do_not_speak_against_a_chunk() -> None:
    """An outage may answer the calls that it finds in flight."""
    one = circuit()
    ends(one, "abab", NOW, Health.FAILURE)
    ends(one, "uvwxyz", NOW + 2, Health.SUCCESS)
    assert {"a", "b"} == one.heard.undecided
    one.record_end(probing(one, NOW + 30), Health.FAILURE, NOW + 31, "e")
    assert {"a", "b", "e"} == one.heard.undecided
    assert 1 == one.failed_probes


def test_a_failing_chunk_is_none_after_the_answer_of_a_later_call() -> None:
    one = circuit()
    ends(one, "abab", NOW, Health.FAILURE)
    ends(one, "a", NOW + 4, Health.SUCCESS)  # this call began before
    assert {"a", "b"} == one.heard.still_failing
    ends(one, "a", NOW + 6, Health.SUCCESS)
    assert {"b"} == one.heard.still_failing


def test_a_chunk_that_failed_in_an_earlier_claim_is_known_at_its_first_failure() -> (
    None
):
    one = circuit()
    ends(one, "uvxyz", NOW, Health.SUCCESS)
    for chunk in "abab":
        failed_at = NOW - 60
        permit = Permit(one.generation)
        one.record_end(permit, Health.FAILURE, NOW + 60, chunk, failed_at)
    assert one.phase is BreakerPhase.CLOSED


def test_the_record_learns_of_failing_chunks_and_of_the_answers_that_decide() -> None:
    here = Heard({"a": 10.0}, {"x": 5.0, "y": 11.0, "z": 12.0})
    known = Heard()
    assert Heard({"a": 10.0}, {"y": 11.0, "z": 12.0}) == here.news(known)
    known |= here.news(known)
    assert not known.undecided
    assert Heard() == replace(here, answered={**here.answered, "u": 13.0}).news(known)
    answered = {**here.answered, "a": 14.0}
    assert Heard(answered={"a": 14.0}) == replace(here, answered=answered).news(known)


def test_only_so_many_failing_chunks_are_known_and_none_for_ever() -> None:
    many = Heard().with_failing({str(n): float(n) for n in range(1, 99)}, 99.0)
    assert {str(n) for n in range(67, 99)} == many.still_failing
    late = many.with_failing({"new": 99.0 + REMEMBERED_S}, 99.0 + REMEMBERED_S)
    assert {"new"} == late.still_failing
