"""A user's own pipeline, and what a person reads when a promise of its breaks."""

from __future__ import annotations

import shlex
import socket

import pytest

from piecework.errors import PieceworkError
from simulation import acts
from simulation.__main__ import run, show
from simulation.given import Given, load_works
from simulation.reach import OUT_OF_REACH
from simulation.report import replay
from simulation.schedule import run_schedule
from tests.simulation.planted import an_effect_is_not_looked_up

QUICKSTART = Given("examples.quickstart:pipeline", "README.md")


def test_no_promise_breaks_in_an_example() -> None:
    works = load_works(QUICKSTART)
    verdicts = [run_schedule(seed, works) for seed in range(1, 6)]
    assert [] == [verdict.broken for verdict in verdicts if verdict.broken]
    assert 0 < sum(verdict.paid for verdict in verdicts)


def test_a_broken_promise_prints_one_command_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    an_effect_is_not_looked_up(monkeypatch)
    assert 1 == run(Given(), seed=1, schedules=20, processes=1)
    said = capsys.readouterr().out
    told, command = said.partition("\nseed ")[2].splitlines()[:2]
    words = shlex.split(command.partition("see it again: ")[2])

    seed, _, broken = told.partition(": ")
    assert ["python", "-m", "simulation", "--seed", seed, "--trace"] == words
    assert 1 == show(Given(), int(seed))
    again = capsys.readouterr().out
    assert broken.partition("; ")[0] in again
    assert f"seed={seed} violations=" in again


def test_the_command_names_the_users_own_pipeline() -> None:
    odd = Given("my_pkg:pipeline", "my items.jsonl", "my_pkg:STAND_INS")
    assert (
        "piecework simulate my_pkg:pipeline 'my items.jsonl'"
        " --stand-ins my_pkg:STAND_INS --seed 7 --trace"
    ) == replay(odd, 7)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (Given("no_such:pipeline", "README.md"), "pipeline.module.not_found"),
        (
            Given("examples.quickstart:count", "README.md"),
            "pipeline.object.not_a_pipeline",
        ),
        (Given("examples.quickstart:pipeline", "none"), "input.source.not_found"),
        (
            Given("examples.quickstart:pipeline", "README.md", "none:X"),
            "cli.usage.invalid",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_simulated_is_told_by_its_code(given: Given, code: str) -> None:
    with pytest.raises(PieceworkError) as caught:
        load_works(given)
    assert code == caught.value.code


@pytest.mark.parametrize("name", ["asking", "running"])
def test_what_blocks_is_kept_from_the_true_world(name: str) -> None:
    works = load_works(Given(f"tests.simulation.made_up:{name}", "README.md"))
    verdicts = [run_schedule(seed, works) for seed in range(1, 6)]
    assert {OUT_OF_REACH} == {code for v in verdicts for code in v.codes}
    assert not any(verdict.broken for verdict in verdicts)


def test_nobody_is_kept_from_the_true_world_outside_of_a_schedule() -> None:
    works = load_works(QUICKSTART)
    run_schedule(1, works)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=1).close()


def test_a_pipeline_that_fails_in_every_job_is_said_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = Given("tests.simulation.made_up:stumbling", "README.md")
    assert 0 == run(given, seed=1, schedules=5, processes=1)
    said = capsys.readouterr().out
    assert "no job succeeded" in said
    assert replay(given, 1) in said
    show(given, 1)
    assert "no_such" in capsys.readouterr().out


def test_a_schedule_that_cannot_be_played_to_its_end_has_a_verdict_and_a_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("result")

    monkeypatch.setattr(acts, "check_the_end", broken)
    assert 1 == run(Given(), seed=3, schedules=2, processes=1)
    said = capsys.readouterr().out
    assert "seed 3: unexpected: KeyError('result')" in said
    assert replay(Given(), 4) in said
