"""Compare the model with servers, call by call."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing

import pytest

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from verification.conformance.dynamodb_machine import compare
from verification.conformance.subjects import AMBIENT, REGION

EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", "25"))


# Not moto: it answers some of them with 500, as its known differences say.
@pytest.mark.parametrize("subject", ["ministack", "endpoint"])
def test_a_server_answers_random_calls_as_the_model_does(
    subject: str, endpoint_of: Callable[[str], str]
) -> None:
    server = Emulator(endpoint_of(subject), 0, REGION, "")
    if AMBIENT is not None and subject == "endpoint":
        opened = AMBIENT.client("dynamodb")
    else:
        opened = make_client("dynamodb", server)
    with closing(opened) as dynamodb:
        assert compare(dynamodb, EXAMPLES) > EXAMPLES
