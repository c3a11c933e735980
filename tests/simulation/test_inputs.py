"""Simulate a user's own pipeline, and print its violations."""

from __future__ import annotations

import shlex
import socket

import pytest

from piecework.errors import PieceworkError
from piecework_orchestrator.cli.global_options import VERBOSE, VERBOSITY
from piecework_simulation.__main__ import run, show
from piecework_simulation.driver import actions
from piecework_simulation.driver.inputs import Inputs, load_workloads
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.engine.sandbox import NETWORK_REFUSED
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.runner import replay

QUICKSTART = Inputs("piecework_examples.quickstart:word_count", "README.md")


def test_an_example_violates_no_invariant() -> None:
    workloads = load_workloads(QUICKSTART)
    verdicts = [run_schedule(seed, workloads) for seed in range(1, 9)]
    assert [] == [verdict.violations for verdict in verdicts if verdict.violations]
    assert 0 < sum(verdict.paid for verdict in verdicts)


def test_a_violation_prints_one_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violate(_: World, invariants: Invariants) -> None:
        invariants.report_violation("I1: planted")

    monkeypatch.setattr(actions, "check_final_state", violate)
    assert 1 == run(Inputs(), seed=100, schedules=1, processes=1)
    said = capsys.readouterr().out
    assert said.startswith("1 violation in 1 schedule\n")
    assert "rarest_fault" not in said
    told, command = said.partition("\nseed ")[2].splitlines()[:2]
    words = shlex.split(command.partition("replay: ")[2])

    seed, _, violations = told.partition(": ")
    assert ["python", "-m", "piecework_simulation", "--seed", seed, "--trace"] == words
    assert 1 == show(Inputs(), int(seed))
    again = capsys.readouterr().out
    assert violations.partition("; ")[0] in again
    assert f"seed={seed} violations=" in again


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        (Inputs("no_such:pipeline", "README.md"), "pipeline.module.not_found"),
        (
            Inputs("piecework_examples.quickstart:count_words", "README.md"),
            "pipeline.object.not_a_pipeline",
        ),
        (
            Inputs("piecework_examples.quickstart:word_count", "none"),
            "input.source.not_found",
        ),
        (
            Inputs("piecework_examples.quickstart:word_count", "README.md", "none:X"),
            "cli.usage.invalid",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_input_raises_its_error_code(inputs: Inputs, code: str) -> None:
    with pytest.raises(PieceworkError) as caught:
        load_workloads(inputs)
    assert code == caught.value.code


CARELESS = "tests.simulation.careless_pipelines"
GATHERING = f"{CARELESS}:gathering"


@pytest.mark.parametrize("name", ["DECLARED", "BARE"])
def test_a_stub_replaces_a_function_however_it_is_called(name: str) -> None:
    workloads = load_workloads(Inputs(GATHERING, "README.md", f"{CARELESS}:{name}"))
    verdicts = [run_schedule(seed, workloads) for seed in range(1, 9)]
    assert NETWORK_REFUSED not in {code for v in verdicts for code in v.codes}
    assert any(verdict.succeeded for verdict in verdicts)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("OF_A_TEXT", "'fetch' is a key of"),
        ("TO_A_TEXT", "'fetched' is a stub of"),
        ("OF_A_LAMBDA", "lambda .* It is a key of"),
        ("NO_MAPPING", "is a list"),
    ],
)
def test_a_stub_that_no_call_can_use_is_refused(name: str, said: str) -> None:
    with pytest.raises(PieceworkError, match=said) as caught:
        load_workloads(Inputs(GATHERING, "README.md", f"{CARELESS}:{name}"))
    assert caught.value.next_step


def test_a_stub_of_a_function_that_is_never_called_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inputs = Inputs(GATHERING, "README.md", f"{CARELESS}:SPARE")
    assert 1 == run(inputs, seed=1, schedules=3, processes=1)
    said = capsys.readouterr().out
    assert said.startswith("0 violations in 3 schedules")
    assert f"No schedule called {CARELESS}.send, so its stub replaced nothing." in said
    used = Inputs(GATHERING, "README.md", f"{CARELESS}:DECLARED")
    assert 0 == run(used, seed=6, schedules=3, processes=1)


def test_an_effect_with_a_short_timeout_happens_once() -> None:
    workloads = load_workloads(Inputs(f"{CARELESS}:hasty", "README.md"))
    verdicts = [run_schedule(seed, workloads) for seed in range(5, 15)]
    assert [] == [v.violations for v in verdicts if v.violations]
    assert any(verdict.fired["call.slow"] for verdict in verdicts)
    # Some chunks have a result.
    assert any(verdict.succeeded or verdict.jobs["PARTIAL"] for verdict in verdicts)


@pytest.mark.parametrize("name", ["asking", "running"])
def test_a_blocking_client_cannot_reach_the_network(name: str) -> None:
    workloads = load_workloads(
        Inputs(f"tests.simulation.careless_pipelines:{name}", "README.md")
    )
    verdicts = [run_schedule(seed, workloads) for seed in range(1, 9)]
    assert NETWORK_REFUSED in {code for v in verdicts for code in v.codes}
    assert not any(verdict.jobs["SUCCEEDED"] for verdict in verdicts)
    assert not any(verdict.violations for verdict in verdicts)


def test_the_network_is_reachable_outside_of_a_schedule() -> None:
    workloads = load_workloads(QUICKSTART)
    run_schedule(1, workloads)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=1).close()


def test_a_pipeline_that_fails_in_every_job_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inputs = Inputs("tests.simulation.careless_pipelines:stumbling", "README.md")
    assert 1 == run(inputs, seed=1, schedules=5, processes=1)
    said = capsys.readouterr().out
    assert "No job succeeded" in said
    assert replay(inputs, 1) in said
    show(inputs, 1)
    assert "no_such" in capsys.readouterr().out


def test_a_failing_schedule_has_a_verdict_and_a_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violations(*_: object) -> None:
        raise KeyError("result")

    monkeypatch.setattr(actions, "check_final_state", violations)
    monkeypatch.setenv(VERBOSITY, VERBOSE)
    assert 1 == run(Inputs(), seed=3, schedules=2, processes=1)
    said = capsys.readouterr().out
    assert "schedules=2 seeds=3-4 violations=2 rarest_fault=" in said
    assert "seed 3: unexpected: KeyError('result')" in said
    assert replay(Inputs(), 4) in said
