"""Commands that show a job, its chunks, its results, and the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.command_line import COUNTING, end, manifest, piecework, start
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item


async def test_results_are_followed_from_before_the_first_worker_starts(
    machine: Scenario, tmp_path: Path
) -> None:
    source = manifest(tmp_path / "items.jsonl", [Item(n=n, calls=n) for n in range(3)])
    await piecework("submit", COUNTING, source, "--job-id", "job-1")
    saved = tmp_path / "out"
    following = await start("results", "job-1", "--follow", "--save", str(saved))
    await machine.process()
    done = await end(following)
    assert 0 == done.exit_code
    assert [0, 1, 2] == sorted(line["chunk"] for line in done.lines)
    assert {0, 1, 2} == {len(line["value"]) for line in done.lines}
    assert "6 0" == (saved / "total.txt").read_text()
    assert "SUCCEEDED" == json.loads((saved / "certificate.json").read_text())["status"]

    shown = await piecework("chunks", "show", "job-1", "2", "-o", "json")
    assert "SUCCEEDED" == shown.document["status"]
    assert ["first", "second"] == [stage["stage"] for stage in shown.document["stages"]]
    join = await piecework("chunks", "show", "job-1", "join")
    assert 0 == join.exit_code


async def test_a_worker_that_is_stopped_by_hand_leaves_nothing_to_put_right(
    machine: Scenario, tmp_path: Path
) -> None:
    source = manifest(tmp_path / "items.jsonl", [Item(n=1)])
    worker = await start("worker", "--pipelines", "tests.scenarios.pipelines")
    done = await piecework("submit", COUNTING, source, "--wait", "--timeout", "90s")
    worker.terminate()
    assert (0, 0) == (done.exit_code, (await end(worker)).exit_code)
    assert "nothing to reconcile" in (await piecework("reconcile")).stderr


async def test_a_doctor_without_an_emulator_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    done = await piecework("doctor")
    assert 2 == done.exit_code
    assert "run `piecework up`" in done.stdout


async def test_without_an_emulator_or_an_account_a_command_says_so() -> None:
    done = await end(await start("jobs", "list"))
    assert (2, "") == (done.exit_code, done.stdout)
    assert "error config.region.missing" in done.stderr


async def test_an_endpoint_that_does_not_answer_is_6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    done = await piecework("jobs", "list")
    assert 6 == done.exit_code
    assert "error aws.endpoint.unreachable" in done.stderr
