"""The examples for other frameworks, inside the true packages: `make frameworks`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from piecework_examples.standalone import langgraph_booking, temporal_booking

#: The server that the environment of this test installs.
SERVER = str(Path(sys.executable).parent / "temporal")


async def test_a_graph_that_is_run_again_books_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await langgraph_booking.main()

    failed, paid = capsys.readouterr().out.splitlines()
    assert failed == "failed: the bank is closed"
    assert paid.startswith("yes")
    assert (paid.count("sell LH1 to ann"), paid.count("pay for 12A")) == (1, 2)


async def test_an_activity_that_is_executed_again_books_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    local = WorkflowEnvironment.start_local(dev_server_existing_path=SERVER)
    async with await local as server:
        await temporal_booking.main(server.client.service_client.config.target_host)

    assert capsys.readouterr().out.splitlines() == [
        "down, seat 1",
        "slow, seat 2",
        "slow, seat 2",
        "busy, seat 3",
        "runtime.stage.permanent",
        "3 seats sold in 9 requests",
    ]
    assert temporal_booking.told == [
        *3 * ["tool.connection.failed"],  # "down"; then the breaker opens
        "runtime.breaker.open",  # no request; Temporal waits until the breaker closes
        "tool.connection.failed",  # "slow": the answer is lost
        "runtime.stage.transient",  # "busy": Temporal waits as long as the airline asks
        "runtime.stage.permanent",  # "full": Temporal does not retry it
    ]
