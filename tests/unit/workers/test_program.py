"""The worker as a program: what its arguments say before it works."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from piecework.domain.versions import version_line
from piecework.settings import Settings
from piecework_worker import process as program
from piecework_worker.__main__ import main
from tests.unit.workers.isolation.forking import meet


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--version", 0, version_line()),
        ("-h", 0, "--pipelines"),
        ("--help", 0, "--pipelines"),
        ("", 2, "--pipelines"),
        ("--pipelines none_of_ours --max-chunks many", 2, "--max-chunks"),
        ("--pipelines none_of_ours --pipes x", 2, "--pipes"),
        ("--pipelines piecework_examples.quickstart --queue A_b", 2, "config.queue"),
    ],
)
def test_it_says_what_it_takes(
    words: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["piecework-worker", *words.split()])
    monkeypatch.setattr(program, "leave", sys.exit)

    with pytest.raises(SystemExit) as ended:
        main()

    out, err = capsys.readouterr()
    assert (code, True) == (ended.value.code, said in out + err)


def test_each_call_of_a_plain_client_has_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run_services(*_: Any, **__: Any) -> int:
        return await meet(None)  # type: ignore[arg-type]

    monkeypatch.setattr(program, "run_services", run_services)
    settings = Settings(max_chunks=1, max_calls_in_flight=40)
    work = program.run_with_threads(settings, {}, [], [], reconcile=False)
    assert 40 == asyncio.run(work)
