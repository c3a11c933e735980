"""The model against the embedded emulator, call by call."""

from __future__ import annotations

import os

from orchestrator.embedded import Emulator
from orchestrator.embedded.client import client
from tests.conformance.dynamodb_machine import compare

EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", "25"))


def test_the_emulator_answers_random_calls_as_the_model_does(
    emulator: Emulator,
) -> None:
    dynamodb = client("dynamodb", emulator)
    try:
        assert compare(dynamodb, EXAMPLES) > EXAMPLES
    finally:
        dynamodb.close()
