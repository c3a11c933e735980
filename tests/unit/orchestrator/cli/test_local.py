from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from piecework.aws.endpoint import Emulator
from piecework.errors.codes import REGISTRY
from piecework_orchestrator import doctor, embedded
from piecework_orchestrator.demo import run as demo_run
from piecework_orchestrator.doctor import Check

Run = Callable[..., Any]


def test_doctor_exits_with_0_if_all_checks_pass(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        doctor, "run_checks", lambda _, **__: [Check("python", ok=True, detail="3.11")]
    )
    done = run("doctor")
    assert (0, "ok  python  3.11") == (done.exit_code, done.stdout.splitlines()[1])


def test_doctor_exits_with_2_and_the_next_step_if_a_check_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    amiss = Check("emulator", ok=False, detail="gone", next_step="run it")
    monkeypatch.setattr(doctor, "run_checks", lambda _, **__: [amiss])
    done = run("doctor")
    assert done.exit_code == 2
    assert "fails  emulator  gone    run it" in done.stdout


def test_up_prints_the_endpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = Emulator("http://127.0.0.1:1", 7, "us-east-1", "1.5")
    given: list[Any] = []
    monkeypatch.setattr(embedded, "up", lambda *_, **by: given.append(by) or found)
    assert "embedded AWS at http://127.0.0.1:1 (MiniStack 1.5)\n" == run("up").stdout
    assert "next: piecework submit" in run("up").stderr
    monkeypatch.setenv("AWS_PROFILE", "ops")
    monkeypatch.delenv("PIECEWORK_STATE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".piecework").mkdir()
    embedded.server.write(tmp_path / ".piecework", found)
    assert "next: For the embedded AWS set PIECEWORK_STATE_DIR" in run("up").stderr
    assert 7 == json.loads(run("up", "--queue", "gpu", "-o", "json").stdout)["pid"]
    assert [[], [], [], ["gpu"]] == [by["queues"] for by in given]
    assert "config.queue.invalid" in run("up", "--queue", "default").stderr


def test_down_without_an_emulator_is_no_error(run: Run) -> None:
    done = run("down")
    assert (0, "no embedded AWS was running\n") == (done.exit_code, done.stdout)


def test_down_asks_before_it_deletes_unfinished_jobs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Emulator("http://127.0.0.1:1", 7, "us-east-1", "1.5")
    stopped: list[Emulator] = []
    monkeypatch.setattr(embedded, "find", lambda: found)
    monkeypatch.setattr(embedded, "count_active_jobs", lambda _: 2)
    monkeypatch.setattr(embedded, "down", lambda: stopped.append(found) or found)

    refused = run("down")
    assert (2, []) == (refused.exit_code, stopped)
    assert "delete 2 unfinished jobs" in refused.stderr
    assert 0 == run("down", "--yes").exit_code
    assert stopped == [found]


@pytest.mark.parametrize(
    ("command", "module"),
    [("worker", "piecework_worker"), ("simulate", "piecework_simulation")],
)
def test_a_command_becomes_the_program_of_that_name(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, module: str
) -> None:
    became: list[object] = []
    monkeypatch.setattr(os, "execv", lambda *words: became.extend(words))
    run(command, "--pipelines", "mine", "--help")
    last = ["-P", "-X", "piecework_folder"]  # the working directory is searched last
    words = [sys.executable, *last, "-m", module, "--pipelines", "mine", "--help"]
    assert [sys.executable, words] == became


def test_every_code_is_listed_and_can_be_looked_up(run: Run) -> None:
    listed = json.loads(run("explain-code", "-o", "json").stdout)
    assert list(REGISTRY) == [row["code"] for row in listed]
    shown = run("explain-code", "cli.wait.timeout").stdout
    assert REGISTRY["cli.wait.timeout"].recovery in shown


def test_codes_are_listed_by_layer(run: Run) -> None:
    listed = json.loads(run("explain-code", "--layer", "aws", "-o", "json").stdout)
    assert {"aws"} == {row["code"].partition(".")[0] for row in listed}
    assert 2 == run("explain-code", "--layer", "nonsense").exit_code


def test_a_code_is_shown_with_the_behaviour_of_the_runtime(run: Run) -> None:
    shown = run("explain-code", "llm.policy.refusal").stdout
    assert "The runtime calls the next `fallback`" in shown


def test_a_code_of_a_pipeline_is_not_taken_for_a_typing_error(run: Run) -> None:
    done = run("explain-code", "acme.zzz.qqqq")
    assert done.exit_code == 3
    assert "`piecework explain-code acme.zzz.qqqq --pipelines MODULE`" in done.stderr


OWN = """
from pydantic import BaseModel
from piecework import Code, Pipeline, Stage, pipeline

declined = Code("bank.card.declined", cause="The bank said no.", recovery="Ask Ann.")
twin = Code("bank.card.declined", cause="CAUSE", recovery="Ask Ann.")


class Row(BaseModel):
    n: int


@pipeline(codes=[declined])
async def one(row: Row) -> int:
    return row.n


@pipeline(codes=[twin])
async def two(row: Row) -> int:
    return row.n
"""


def test_the_own_codes_of_pipelines_are_listed_and_explained(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    agreed = OWN.replace("CAUSE", "The bank said no.")
    (tmp_path / "own_codes.py").write_text(agreed, encoding="utf-8")
    (tmp_path / "two_meanings.py").write_text(OWN, encoding="utf-8")
    of = ("--pipelines", "own_codes")

    (row,) = json.loads(run("explain-code", *of, "-o", "json").stdout)
    assert (row["code"], row["class"]) == ("bank.card.declined", "permanent")
    assert (row["cause"], row["recovery"]) == ("The bank said no.", "Ask Ann.")
    assert "Ask Ann." in run("explain-code", "bank.card.declined", *of).stdout
    assert "bank.card.declined" in run("explain-code", *of, "--layer", "bank").stdout
    assert "cause" in run("explain-code", "cli.wait.timeout", *of).stdout
    similar = run("explain-code", "bank.card.declinde", *of)
    assert "explain-code bank.card.declined --pipelines MODULE" in similar.stderr
    differ = run("explain-code", "--pipelines", "two_meanings")
    assert (differ.exit_code, "different rows" in differ.stderr) == (2, True)


def test_an_unknown_code_names_similar_codes(run: Run) -> None:
    done = run("explain-code", "cli.wait.timeuot")
    assert done.exit_code == 3
    assert "cli.wait.timeout" in done.stderr


def test_each_setting_is_shown_with_its_source(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_LEASE_S", "30")
    rows = json.loads(run("config", "show", "-o", "json").stdout)
    found = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert (30.0, "PIECEWORK_LEASE_S") == found["lease_s"]
    assert (90.0, "default") == found["visibility_s"]
    assert "AWS" == found["endpoint"][0]


def test_settings_that_contradict_each_other_are_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_UI_TOKEN", "t")
    monkeypatch.setenv("PIECEWORK_WEBHOOK_SLACK", "https://hooks.example")
    assert 0 == run("config", "validate").exit_code
    monkeypatch.setenv("PIECEWORK_LEASE_S", "100")
    done = run("config", "validate")
    assert done.exit_code == 2
    assert "error config.setting.invalid" in done.stderr


def test_a_misspelt_setting_is_refused_with_a_similar_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_LEESE_S", "30")
    done = run("config", "validate")
    assert done.exit_code == 2
    assert "PIECEWORK_LEESE_S (similar: PIECEWORK_LEASE_S)" in done.stderr


def test_the_demo_writes_to_stdout_and_sets_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_demo(
        *, seed: int, keep: bool, calls: int, out: Path, stream: TextIO
    ) -> int:
        stream.write(f"{seed} {keep} {calls} {out}\n")
        return 5

    monkeypatch.setattr(demo_run, "run_demo", run_demo)
    assert 2 == run("demo", "--calls", "231").exit_code
    done = run("demo", "--seed", "7", "--out", "there", "--calls", "116")
    assert (5, "7 False 116 there\n") == (done.exit_code, done.stdout)
