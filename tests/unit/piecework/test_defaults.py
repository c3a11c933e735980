"""Promise: no default changes by accident; each stands here by its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from piecework import CircuitBreaker, Dependency, RetryPolicy
from piecework.dependency import MODEL_RETRY
from piecework.domain.outcome import MAX_WAIT_IN_QUEUE_S
from piecework.settings import Settings

DATA = (Path(__file__).parents[3] / "infra/data.yaml").read_text("utf-8")
SETTINGS, TOOL, BREAKER = Settings(), Dependency("tool"), CircuitBreaker()
MODEL = Dependency("model", layer="llm")


def delays(policy: RetryPolicy) -> list[float]:
    """Return the longest wait after each attempt but the last."""
    return [policy.delay_limit(number) for number in range(1, policy.attempts)]


def resource(name: str) -> str:
    """Return the text of a resource of the data stack."""
    return DATA.split(f"\n  {name}:\n", 1)[1].split("\n\n", 1)[0]


def numbers(name: str, key: str) -> list[int]:
    """Return the numbers of a property of a resource."""
    found = re.findall(rf"\b{key}: (\d+)", resource(name))
    return [int(number) for number in found]


@pytest.mark.parametrize(
    ("what", "default", "number"),
    [
        ("seconds of a call", TOOL.timeout, 60.0),
        ("waits of a call", delays(TOOL.retry), [0.25, 0.5, 1.0, 2.0]),
        ("waits of a model call", delays(MODEL_RETRY), [1.0, 2.0]),
        ("the policy of a model", MODEL.retry, MODEL_RETRY),
        ("waiting in a call", (TOOL.retry.budget, MODEL_RETRY.budget), (30.0, 30.0)),
        ("share of retries", TOOL.retry.retry_ratio, 0.2),
        (
            "the breaker opens",
            (BREAKER.failure_rate, BREAKER.minimum_calls, BREAKER.window_calls),
            (0.5, 10, 50),
        ),
        ("the breaker stays open", (BREAKER.open_s, BREAKER.max_open_s), (30.0, 300.0)),
        ("attempts of a chunk", SETTINGS.max_attempts, 3),
        ("the lease", SETTINGS.lease_s, 60.0),
        ("the visibility", SETTINGS.visibility_s, 90.0),
        ("visibility of the queue", numbers("WorkQueue", "VisibilityTimeout"), [90]),
        ("one claim", SETTINGS.max_runtime_s, 900.0),
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
        ("an old dead letter: a day", SETTINGS.dead_letter_age_s, 86_400.0),
    ],
)
def test_a_default_is_what_the_pages_say(
    what: str, default: object, number: object
) -> None:
    assert default == number, what
