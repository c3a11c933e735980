"""When calls are given up, and how one finds out that they are worth it again."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.breaker import (
    OPEN_CODE,
    PROBED_S,
    Breaker,
    Circuit,
    Health,
    Passage,
    State,
    Wait,
    refusal,
    refused_by_breaker,
)
from piecework.codes import ErrorClass
from piecework.errors import PermanentError, TransientError, UsageError
from tests.unit.piecework.fakes import Highest, Lowest, envelope

RULES = Breaker(rate=0.5, volume=4, calls=10, window_s=30.0, reset_s=30.0)
PROBE_S = 65.0
NOW = 1000.0


def circuit(rules: Breaker = RULES) -> Circuit:
    return Circuit(rules, Highest())


def through(one: Circuit, health: Health, now: float = NOW) -> None:
    passage = one.ask(now, PROBE_S)
    assert isinstance(passage, Passage)
    one.ended(passage, health, now)


def opened(rules: Breaker = RULES) -> Circuit:
    one = circuit(rules)
    for _ in range(rules.volume):
        through(one, Health.FAILED)
    return one


def probing(one: Circuit, now: float = NOW + 30) -> Passage:
    passage = one.ask(now, PROBE_S)
    assert isinstance(passage, Passage)
    assert passage.probe
    return passage


def test_too_few_calls_say_nothing() -> None:
    one = circuit()
    for _ in range(3):
        through(one, Health.FAILED)
    assert one.state is State.CLOSED


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
def test_it_opens_where_failures_beyond_the_rate_are_no_chance(
    failed: int, calls: int, *, opens: bool
) -> None:
    assert opens is Breaker().opens(failed, calls)


def test_the_rate_is_reached_by_failures_alone_if_it_is_all() -> None:
    rules = Breaker(rate=1.0)
    assert rules.opens(10, 10)
    assert not rules.opens(9, 9)
    assert not rules.opens(99, 100)


@pytest.mark.parametrize(("well", "state"), [(1, State.OPEN), (2, State.CLOSED)])
def test_calls_that_went_well_speak_for_it(well: int, state: State) -> None:
    one = circuit()
    for health in [Health.WELL] * well + [Health.FAILED] * 5:
        through(one, health)
    assert one.state is state


@pytest.mark.parametrize("health", [Health.THERE, Health.UNKNOWN])
def test_what_says_nothing_of_its_health_counts_for_nothing(health: Health) -> None:
    one = circuit()
    for each in [Health.FAILED] * 3 + [health] * 9:
        through(one, each)
    assert one.state is State.CLOSED
    through(one, Health.FAILED)
    assert one.state is State.OPEN


def test_calls_older_than_the_window_are_forgotten() -> None:
    one = circuit()
    for _ in range(3):
        through(one, Health.FAILED)
    through(one, Health.FAILED, NOW + 30.1)
    assert one.state is State.CLOSED


def test_only_the_last_calls_are_judged_however_many_went_well_before() -> None:
    one = circuit()
    for _ in range(1000):
        through(one, Health.WELL)
    for _ in range(7):
        assert one.state is State.CLOSED
        through(one, Health.FAILED)
    assert one.state is State.OPEN


def test_an_open_breaker_lets_nothing_through_until_its_time_is_over() -> None:
    one = opened()
    assert Wait(30.0) == one.ask(NOW, PROBE_S)
    assert Wait(0.5) == one.ask(NOW + 29.5, PROBE_S)


def test_a_half_open_breaker_lets_one_call_through() -> None:
    one = opened()
    probing(one)
    assert Wait(PROBED_S) == one.ask(NOW + 30, PROBE_S)


def test_a_probe_that_was_answered_closes_it() -> None:
    for health in (Health.WELL, Health.THERE):
        one = opened()
        one.ended(probing(one), health, NOW + 31)
        assert one.state is State.CLOSED
        assert one.ask(NOW + 31, PROBE_S) == Passage(one.generation)


def test_a_probe_that_failed_keeps_it_open_for_longer_up_to_a_limit() -> None:
    one, now, waits = opened(), NOW + 30.0, []
    for _ in range(5):
        one.ended(probing(one, now), Health.FAILED, now)
        waits.append(one.until - now)
        now = one.until
    assert waits == [60.0, 120.0, 240.0, 300.0, 300.0]


def test_the_longer_time_is_drawn_from_its_upper_half() -> None:
    assert 30.0 == RULES.open_s(1, Lowest())
    assert 30.0 == RULES.open_s(0, Highest())


def test_after_it_has_closed_the_first_time_is_the_short_one_again() -> None:
    one = opened()
    one.ended(probing(one), Health.FAILED, NOW + 30)
    one.ended(probing(one, one.until), Health.WELL, one.until)
    for _ in range(4):
        through(one, Health.FAILED, NOW + 200)
    assert (NOW + 230, 0) == (one.until, one.failed_probes)


def test_a_probe_that_tells_nothing_is_given_to_the_next() -> None:
    one = opened()
    one.ended(probing(one), Health.UNKNOWN, NOW + 31)
    assert one.state is State.OPEN
    probing(one, NOW + 31)


def test_a_probe_that_is_never_answered_is_lost_after_its_time() -> None:
    one = opened()
    probing(one)
    assert Wait(1.0) == one.ask(NOW + 30 + PROBE_S - 1, PROBE_S)
    probing(one, NOW + 30 + PROBE_S)


@pytest.mark.parametrize("health", [Health.WELL, Health.FAILED])
def test_the_answer_to_a_call_of_an_earlier_generation_counts_for_nothing(
    health: Health,
) -> None:
    one = circuit(Breaker(volume=1, calls=10))
    early = one.ask(NOW, PROBE_S)
    late = one.ask(NOW, PROBE_S)
    assert isinstance(early, Passage)
    assert isinstance(late, Passage)
    one.ended(early, Health.FAILED, NOW)
    generation = one.generation
    one.ended(late, health, NOW)
    assert (State.OPEN, generation) == (one.state, one.generation)
    one.ended(probing(one), Health.WELL, NOW + 30)
    one.ended(late, health, NOW + 30)
    assert one.state is State.CLOSED


def test_what_failed_before_it_opened_does_not_open_it_again() -> None:
    one = opened()
    one.ended(probing(one), Health.WELL, NOW + 30)
    through(one, Health.FAILED, NOW + 30)
    assert one.state is State.CLOSED


def test_another_s_probe_is_waited_for() -> None:
    one = opened()
    one.probed(NOW + 40)
    assert Wait(PROBED_S) == one.ask(NOW + 31, PROBE_S)
    closed = circuit()
    closed.probed(NOW + 40)
    assert Passage(0) == closed.ask(NOW, PROBE_S)


FAILURES: list[tuple[dict[str, Any], Health]] = [
    ({"error_class": ErrorClass.TRANSIENT}, Health.FAILED),
    ({"error_class": ErrorClass.TRANSIENT, "http_status": 503}, Health.FAILED),
    ({"error_class": ErrorClass.TRANSIENT, "http_status": 429}, Health.FAILED),
    ({"error_class": ErrorClass.PERMANENT, "http_status": 404}, Health.THERE),
    ({"error_class": ErrorClass.POLICY, "http_status": 403}, Health.THERE),
    ({"error_class": ErrorClass.PERMANENT}, Health.UNKNOWN),
    ({"error_class": ErrorClass.SEMANTIC}, Health.THERE),
    ({"error_class": ErrorClass.STATE}, Health.UNKNOWN),
    ({"error_class": ErrorClass.TRANSIENT, "code": OPEN_CODE}, Health.UNKNOWN),
]


@pytest.mark.parametrize(("facts", "health"), FAILURES)
def test_each_class_of_failure_says_something_else_of_health(
    facts: dict[str, Any], health: Health
) -> None:
    assert health is RULES.health(envelope(**facts))


def test_a_rate_limit_counts_as_it_is_declared() -> None:
    lenient = Breaker(rate_limits=False)
    limited = envelope(ErrorClass.TRANSIENT, http_status=429)
    assert Health.THERE is lenient.health(limited)
    assert Health.FAILED is lenient.health(envelope(ErrorClass.TRANSIENT))


@pytest.mark.parametrize(
    "figures",
    [
        {"rate": 0.0},
        {"rate": 1.1},
        {"volume": 0},
        {"volume": 20, "calls": 19},
        {"window_s": 0.0},
        {"reset_s": 0.0},
        {"reset_s": 10.0, "longest_s": 9.0},
    ],
)
def test_figures_by_which_it_would_never_open_or_close_are_refused(
    figures: dict[str, Any],
) -> None:
    with pytest.raises(UsageError) as refused:
        Breaker(**figures)
    assert refused.value.code == "pipeline.declaration.invalid"


def test_a_refusal_is_known_by_its_code_also_behind_another_error() -> None:
    error = refusal("model", 12.0)
    assert (12.0, OPEN_CODE) == (error.retry_after, error.code)
    wrapped = RuntimeError("no model")
    wrapped.__cause__ = error
    assert refused_by_breaker(error)
    assert refused_by_breaker(wrapped)
    assert not refused_by_breaker(TransientError("not now"))
    assert not refused_by_breaker(PermanentError("no"))
