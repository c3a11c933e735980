"""When the lines are written, and that nothing else stands between them."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from typing import Any

import pytest

from piecework.settings import Settings
from piecework.telemetry.emf import FLUSH_S, Gauge, write_metrics
from piecework.telemetry.emit import _LISTENERS
from tests.unit.piecework.telemetry.whole import emit_whole
from tests.unit.virtual import run_virtually

EMF = Settings(metrics="emf")


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_a_minute_and_one_at_the_end() -> None:
    out, before = io.StringIO(), [*_LISTENERS]

    async def a_minute_and_a_half() -> None:
        async with write_metrics(
            EMF, lambda: 5.0, lambda: [Gauge("ChunksInProgress", 2)], out
        ):
            emit_whole("chunk.claimed", chunk=1)
            await asyncio.sleep(FLUSH_S * 1.5)
            emit_whole("worker.stopped")

    run_virtually(a_minute_and_a_half())

    first, last = read(out)
    assert (first["ChunksClaimed"], first["ChunksInProgress"]) == (1, 2)
    assert (last["WorkersStopped"], "ChunksClaimed" in last) == (1, False)
    assert before == _LISTENERS


async def test_off_writes_nothing_and_listens_to_nothing() -> None:
    out, before = io.StringIO(), [*_LISTENERS]
    async with write_metrics(Settings(), lambda: 5.0, stream=out):
        assert before == _LISTENERS
        emit_whole("chunk.claimed", chunk=1)

    assert out.getvalue() == ""


async def test_the_last_line_is_written_when_the_process_fails() -> None:
    out = io.StringIO()

    async def fail() -> None:
        async with write_metrics(EMF, lambda: 5.0, stream=out):
            emit_whole("chunk.dead_lettered", chunk=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert [line["DeadLetters"] for line in read(out)] == [1]


class Gone(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


async def test_lines_that_are_not_read_end_nothing() -> None:
    async with write_metrics(EMF, lambda: 5.0, stream=Gone()):
        emit_whole("chunk.claimed", chunk=1)


PRINTS = """
import asyncio, os, subprocess, sys
from piecework.settings import Settings
from piecework.telemetry import emit
from piecework.telemetry.emf import write_metrics
from piecework.telemetry.emit import quiet_log

async def main():
    async with write_metrics(Settings(metrics="emf"), lambda: 5.0):
        print("a stage prints")
        subprocess.run(["echo", "a child prints"], check=True)
        emit(quiet_log(), "chunk.claimed", chunk=1, receive_count=1)

print("before")
asyncio.run(main())
print("after")
"""


def test_what_a_stage_or_its_child_prints_comes_out_on_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True
    )

    before, line, after = done.stdout.splitlines()
    assert (before, json.loads(line)["ChunksClaimed"], after) == ("before", 1, "after")
    assert sorted(done.stderr.split("\n")[:2]) == ["a child prints", "a stage prints"]
