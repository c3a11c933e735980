"""The bill and the throttles are told of a request on either path alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from piecework.cost.meter import CostMeter, listen
from piecework.domain.refs import JobRef
from piecework.telemetry.emit import emit_throttles, listening
from tests.unit.piecework.aws.transport.both import both
from tests.unit.piecework.aws.transport.test_sdk_parity import ANSWERS, UPDATE

THROTTLED = {
    "a throttle, then a success",
    "throttles to the end",
    "a cancelled transaction",
    "the last try succeeds",
    "bad and worse",
}
pytestmark = pytest.mark.usefixtures("one_moment")


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_request_has_the_same_cost_and_events(case: str) -> None:
    told: list[tuple[str, Mapping[str, Any]]] = []
    meters = CostMeter(), CostMeter()
    async with both("dynamodb") as pair:
        for client, meter in zip((pair.sdk, pair.alike), meters, strict=True):
            listen(client, meter)
            emit_throttles(client)
        with listening(lambda name, fields: told.append((name, fields))):
            _, thin = await pair.ask("update_item", ANSWERS[case], **UPDATE)

    job = JobRef("t", "j")
    assert meters[0].account(job).counts == meters[1].account(job).counts
    assert (
        len(thin.sent) * 1_000
        == meters[1].account(job).counts["op__UpdateItem__requests"]
    )
    half = len(told) // 2
    assert told[:half] == told[half:]
    assert (case in THROTTLED) == bool(told)
