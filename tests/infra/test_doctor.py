"""What the doctor says of a healthy machine, and of each thing that is amiss."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from piecework.domain.keys import WORKERS_PK
from piecework.domain.moments import iso
from piecework.settings import load_settings
from piecework.store.serialization import to_item
from piecework_orchestrator.doctor import Check, run_checks
from piecework_orchestrator.embedded import server
from piecework_orchestrator.embedded.deploy import make_client

LOOPBACK = "http://127.0.0.1:9"


def look(environ: dict[str, str]) -> dict[str, Check]:
    return {check.name: check for check in run_checks(load_settings(), environ)}


@pytest.fixture
def state_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(folder))
    return folder


def test_the_doctor_finds_what_was_deployed_and_names_what_is_missing(
    deployed: Emulator, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = run_checks(load_settings(), queues=["gpu"])
    (gone,) = [check for check in checks if not check.ok]
    assert gone.name.endswith("-work_gpu")
    assert "up --queue gpu" in gone.next_step
    kinds = ("queue", "table", "bucket")
    assert 6 == sum(check.name.startswith(kinds) for check in checks)

    found = {check.name: check for check in run_checks(load_settings(env="elsewhere"))}
    missing = found["table piecework-elsewhere-checkpoints"]
    assert not missing.ok
    assert "piecework up" in missing.next_step

    # A running emulator, and the queues of workers, are found without an option.
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    server.write(state_dir, deployed)
    found = look({})
    assert found["emulator"].detail.startswith("MiniStack 1.5.33")
    assert found["endpoint"].detail.startswith(deployed.endpoint)
    assert [name for name, check in found.items() if not check.ok] == []
    settings = load_settings()
    for queue in ("gpu", "unused"):
        name = settings.queue_name(queue)
        make_client("sqs", deployed).create_queue(QueueName=name)
    table = make_client("dynamodb", deployed)
    later, before = iso(time.time() + 60), iso(time.time() - 60)
    for queue, report in (
        ("gpu", {"due_at": later}),
        ("ocr", {"due_at": later}),
        ("dead", {"due_at": before}),
        ("stopped", {"due_at": later, "stopped_at": before}),
    ):
        row = {"pk": WORKERS_PK, "sk": queue, "lease_ms": 60_000, **report}
        row["queues"] = ["default", queue]
        table.put_item(TableName=settings.checkpoints_table, Item=to_item(row))
    queues = {name: check for name, check in look({}).items() if "-work_" in name}
    gpu, ocr = (f"queue {settings.queue_name(name)}" for name in ("gpu", "ocr"))
    assert {gpu: True, ocr: False} == {name: c.ok for name, c in queues.items()}
    assert "up --queue ocr" in queues[ocr].next_step


def test_an_emulator_that_ended_is_reported_with_the_next_step(state_dir: Path) -> None:
    server.write(state_dir, Emulator(LOOPBACK, 1, "us-east-1", "1.5.33"))
    gone = look(dict(os.environ))["emulator"]
    assert not gone.ok
    assert gone.next_step == "run `piecework up`"


def test_a_damaged_state_file_does_not_end_the_doctor(state_dir: Path) -> None:
    (state_dir / "emulator.json").write_text("{")
    endpoint = look({})["endpoint"]
    assert (False, True) == (endpoint.ok, "`piecework up`" in endpoint.next_step)


def test_an_account_beside_an_emulator_is_refused_as_by_each_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIECEWORK_STATE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".piecework").mkdir()
    found = Emulator(LOOPBACK, 1, "us-east-1", "1.5.33")
    server.write(tmp_path / ".piecework", found)
    check = look({"AWS_PROFILE": "ops"})["endpoint"]
    assert (False, True) == (check.ok, "PIECEWORK_STATE_DIR" in check.next_step)


def test_two_regions_that_differ_are_reported() -> None:
    environ = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}
    region = look({"AWS_ENDPOINT_URL": LOOPBACK, **environ})["region"]
    assert not region.ok
    assert "eu-west-1" in region.detail


def test_an_endpoint_of_the_environment_wins_over_the_state_file(
    state_dir: Path,
) -> None:
    server.write(state_dir, Emulator(LOOPBACK, 1, "us-east-1", "1.5.33"))
    found = look({"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:8"})
    assert found["loopback"].detail == "no: another service is elsewhere"
    assert found["endpoint"].detail == "http://127.0.0.1:8: AWS_ENDPOINT_URL_SQS is set"


def test_real_aws_without_an_account_says_what_to_do() -> None:
    found = look({})
    assert found["endpoint"].detail.startswith("AWS:")
    assert not found["credentials"].ok
    assert "piecework up" in found["credentials"].next_step


@pytest.mark.parametrize(
    ("check", "environ", "said"),
    [
        ("region", {"AWS_PROFILE": "nobody"}, "nobody"),
        ("region", {"AWS_CONFIG_FILE": "broken"}, "parse"),
        ("credentials", {"AWS_PROFILE": "nobody", "AWS_REGION": "us-east-1"}, "nobody"),
        (
            "credentials",
            {"AWS_ACCESS_KEY_ID": "half", "AWS_REGION": "us-east-1"},
            "AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_a_configuration_of_aws_that_cannot_be_read_is_one_check_that_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: str,
    environ: dict[str, str],
    said: str,
) -> None:
    (tmp_path / "broken").write_text("rubbish\n")
    monkeypatch.chdir(tmp_path)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    found = look(dict(os.environ))
    assert not found[check].ok
    assert said in found[check].detail
    assert "profile" in found[check].next_step
