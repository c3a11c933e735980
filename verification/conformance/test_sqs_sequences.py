"""Compare the SQS model with the emulators on random sequences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from piecework_simulation.aws.sqs_messages import Deliveries
from verification.conformance.sqs_sequences import disagreements

SEEDS = range(8)
STEPS = 40


@pytest.mark.parametrize("subject", ["ministack", "moto"])
def test_random_sequences_agree(
    subject: str, endpoint_of: Callable[[str], str]
) -> None:
    found = disagreements(subject, endpoint_of(subject), SEEDS, STEPS)
    assert [] == asyncio.run(found)


def test_a_model_without_dead_lettering_is_detected(
    endpoint_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deliveries, "_to_dlq", lambda *_: None)
    found = disagreements("ministack", endpoint_of("ministack"), SEEDS, STEPS)
    assert asyncio.run(found) != []
