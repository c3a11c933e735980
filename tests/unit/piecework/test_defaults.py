"""Guarantee: no default changes by accident; each stands here by its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from piecework import CircuitBreaker, Dependency, RetryPolicy
from piecework.dependency import MAX_CACHE_TTL_S, MIN_CACHE_TTL_S, MODEL_RETRY
from piecework.domain.outcome import MAX_WAIT_IN_QUEUE_S
from piecework.domain.webhook import ATTEMPTS, DELAYS_S
from piecework.resilience.lanes import Lane
from piecework.settings import Settings
from piecework.standalone import ByKey, SequenceNumbers, TimeWindow
from piecework_worker.notifier import MAX_ATTEMPTS

ROOT = Path(__file__).parents[3]
DATA, ALARMS = [
    (ROOT / f"infra/{stack}.yaml").read_text("utf-8") for stack in ("data", "alarms")
]
SETTINGS, TOOL, BREAKER = Settings(), Dependency("tool"), CircuitBreaker()
MODEL = Dependency("model", layer="llm")


def delays(policy: RetryPolicy) -> list[float]:
    """Return the longest wait after each attempt but the last."""
    return [policy.delay_limit(number) for number in range(1, policy.attempts)]


def numbers(name: str, key: str, stack: str = DATA) -> list[float]:
    """Return the numbers of a property of a resource, wherever it is nested."""
    resource = re.split(r"\n  (?=\w)", stack.split(f"\n  {name}:\n", 1)[1], maxsplit=1)[
        0
    ]
    return [float(found) for found in re.findall(rf"\b{key}: ([\d.]+)", resource)]


@pytest.mark.parametrize(
    ("what", "default", "number"),
    [
        ("seconds of a call", (TOOL.timeout_s, MODEL.timeout_s), (30.0, 60.0)),
        ("waits of a call", delays(TOOL.retry), [0.25, 0.5, 1.0, 2.0]),
        ("waits of a model call", delays(MODEL_RETRY), [1.0, 2.0, 4.0]),
        ("the policy of a model", MODEL.retry, MODEL_RETRY),
        ("the longest wait", (TOOL.retry.cap, MODEL_RETRY.cap), (30.0, 30.0)),
        (
            "waiting in a call",
            (TOOL.retry.retry_time, MODEL_RETRY.retry_time),
            (30.0, 30.0),
        ),
        ("waiting in a run", SETTINGS.retry_time_s, 60.0),
        ("share of retries", TOOL.retry.retry_ratio, 0.2),
        (
            "the breaker opens",
            (BREAKER.failure_rate, BREAKER.minimum_calls, BREAKER.window_calls),
            (0.5, 10, 50),
        ),
        ("the breaker stays open", (BREAKER.open_s, BREAKER.max_open_s), (30.0, 300.0)),
        ("the breaker is waited for", SETTINGS.max_deferred_s, 86_400.0),
        ("an answer by its key", ByKey().ttl_s, 86_400.0),
        ("an answer by its number", SequenceNumbers(of=int).ttl_s, 86_400.0),
        ("an answer in a window", TimeWindow().window_s, 300.0),
        ("a shared answer", (MIN_CACHE_TTL_S, MAX_CACHE_TTL_S), (3_600, 86_400)),
        ("attempts of a chunk", SETTINGS.max_attempts, 3),
        ("the lease", SETTINGS.lease_s, 18.0),
        ("the visibility", SETTINGS.visibility_s, 90.0),
        ("visibility of the queue", numbers("WorkQueue", "VisibilityTimeout"), [90]),
        ("receives of a message", numbers("WorkQueue", "maxReceiveCount"), [10]),
        ("one claim", SETTINGS.max_runtime_s, 900.0),
        ("no progress", SETTINGS.stall_timeout_s, 300.0),
        ("a wait in the queue", MAX_WAIT_IN_QUEUE_S, 900.0),
        (
            "retention of the queue: 4 days",
            numbers("WorkQueue", "MessageRetentionPeriod"),
            [345_600],
        ),
        (
            "retention of the dead-letter queue: 14 days",
            numbers("DeadLetterQueue", "MessageRetentionPeriod"),
            [1_209_600],
        ),
        ("retention of a job, in days", SETTINGS.job_retention_days, 90),
        (
            "the alarm of new dead letters, in 5 minutes",
            (SETTINGS.dead_letter_alarm, SETTINGS.dead_letter_alarm_window_s),
            (3, 300.0),
        ),
        ("the same on AWS", numbers("DeadLettersAlarm", "Threshold", ALARMS), [3]),
        ("its window on AWS", numbers("DeadLettersAlarm", "Period", ALARMS), [300]),
        ("an old dead letter: a day", SETTINGS.dead_letter_age_s, 86_400.0),
        (
            "waits of a webhook",
            (ATTEMPTS, DELAYS_S),
            (9, (1, 5, 30, 300, 1_800, 7_200, 28_800, 86_400)),
        ),
        ("attempts of a notify hook", MAX_ATTEMPTS, 6),
    ],
)
def test_a_default_is_what_the_pages_say(
    what: str, default: object, number: object
) -> None:
    assert default == number, what


#: The first cell of a row of `docs/timeouts.md`, and its default.
TIMEOUTS = {
    "a call to a service": f"{TOOL.timeout_s:,.0f} s",
    "a call to a model": f"{MODEL.timeout_s:,.0f} s",
    "a request in the flex lane": f"{Lane.flex().timeout:,.0f} s",
    "a message in work": f"{SETTINGS.visibility_s:,.0f} s",
    "a claim whose worker is silent": f"{SETTINGS.lease_s:,.0f} s",
    "a stage without progress": f"{SETTINGS.stall_timeout_s:,.0f} s",
    "a run of a stage": "that of the claim",
    "a claim in all": f"{SETTINGS.max_runtime_s:,.0f} s",
    "an open circuit breaker": f"{SETTINGS.max_deferred_s:,.0f} s",
    "a question to a person": "none: the stage declares it",
    "a job": "not limited",
    "a dead letter without a decision": f"{SETTINGS.dead_letter_age_s:,.0f} s",
    "a call of a hook of a ladder": f"{SETTINGS.lease_s:,.0f} s",
    "a call of a notify hook": f"{SETTINGS.lease_s:,.0f} s",
    "an attempt of a webhook": f"{SETTINGS.webhook_timeout_s:,.0f} s",
}


def test_the_table_of_timeouts_has_the_defaults() -> None:
    lines = (ROOT / "docs/timeouts.md").read_text("utf-8").splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| a")]

    assert {row: default for row, default, *_ in table} == TIMEOUTS
