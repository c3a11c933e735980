"""Measure the first steps of a new user; `make onboarding` fails above a limit.

The figures come from runs of the installed commands and from the page that a new user
reads. CPU is the smallest of several runs, of the whole process with its Python.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from verification.first_minute import first_minute

ROOT: Final = Path(__file__).parents[1]
#: The page and its section with a user's own pipeline.
PAGE: Final = ROOT / "README.md"
SECTION: Final = "## Your own pipeline\n"
#: The tests of what a checker of types refuses.
TYPED: Final = ROOT / "tests" / "typed"
LIMITS: Final[Mapping[str, float]] = {
    "lines_of_own_pipeline": 15,
    "commands": 1,
    "first_result_s": 1.0,
    "first_client_result_s": 1.0,
    "import_cpu_s": 0.3,
    "jobs_show_cpu_s": 0.5,
    "demo_last_line_s": 60.0,
    "demo_longest_gap_s": 5.0,
    "demo_mb": 350,
}
ALL: Final = "all"
CHUNKS: Final = 1_000
#: Runs of which the one with the least CPU counts: other processes disturb the others.
RUNS: Final = 5
#: A stage that writes when it returned, so before its chunk is settled.
PIPELINE: Final = """\
import os, time
from pydantic import BaseModel
from piecework import Context, Pipeline, Stage

class Row(BaseModel):
    n: int

async def count(ctx: Context[Row]) -> int:
    with open(os.environ["ONBOARDING_RETURNS"], "a") as file:
        file.write(f"{ctx.chunk} {time.time()}\\n")
    return ctx.payload.n

pipeline = Pipeline("rows", payload=Row, stages=[Stage(count)])
"""
#: A program that prints the number of the first chunk that it sees, and the time.
PROGRAM: Final = """\
import asyncio, time
from piecework.client import Client
from onboarding_rows import pipeline

async def main():
    async with Client() as client:
        job = await client.submit(pipeline, "rows.jsonl")
        first = await anext(job.results())
        print(first.chunk, time.time())
        await job.wait()

asyncio.run(main())
"""
BLOCK: Final = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Print every figure in one line; return 1 if a figure exceeds its limit."""
    with tempfile.TemporaryDirectory(prefix="onboarding-") as folder:
        figures = measure(Path(folder))
    print(" ".join(f"{name}={value}" for name, value in figures.items()))  # noqa: T201
    return 1 if over_limits(figures) else 0


def over_limits(figures: Mapping[str, float | str]) -> list[str]:
    """Return the figures that exceed their limits, or that could not be measured."""
    found = [
        name
        for name, limit in LIMITS.items()
        if isinstance(figures[name], str) or float(figures[name]) > limit
    ]
    caught = figures["typing_errors_caught"] == ALL
    return found if caught else [*found, "typing_errors_caught"]


def measure(folder: Path) -> dict[str, float | str]:
    """Return the figures in the order of their line."""
    (folder / "onboarding_rows.py").write_text(PIPELINE)
    rows = "".join(f"{json.dumps({'n': n})}\n" for n in range(CHUNKS))
    (folder / "rows.jsonl").write_text(rows)
    return {
        **count_lines(read_page(PAGE)),
        "first_result_s": round(first_result_s(read_page(PAGE), folder / "own"), 2),
        "typing_errors_caught": typing_errors_caught(TYPED),
        "import_cpu_s": least_cpu_s(["-c", "import piecework"], folder),
        **on_embedded_aws(folder),
        **first_minute(folder),
    }


def read_page(page: Path) -> dict[str, list[str]]:
    """Return the lines of the first pipeline of a page, and of the commands after it.

    Blank lines and comments are left out.
    """
    text = page.read_text("utf-8") if page.exists() else ""
    found = BLOCK.findall(text.partition(SECTION)[2].partition("\n## ")[0])
    return {
        language: [line for line in body.splitlines() if is_code(line)]
        for language, body in reversed(found)
    }


def is_code(line: str) -> bool:
    """Return whether a line is neither blank nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def count_lines(blocks: Mapping[str, list[str]]) -> dict[str, float | str]:
    """Return the figures of the pipeline of a page."""
    names = {"lines_of_own_pipeline": "python", "commands": "sh"}
    return {
        name: len(blocks[language]) if language in blocks else "unknown"
        for name, language in names.items()
    }


def first_result_s(blocks: Mapping[str, list[str]], folder: Path) -> float:
    """Return the seconds from the settling of a chunk to the line of its result.

    The pipeline and the command are those of the page; the input has many rows.
    """
    folder.mkdir()
    (folder / "app.py").write_text("\n".join(blocks["python"]))
    (folder / "rows.jsonl").write_text('{"text": "one two"}\n' * CHUNKS)
    command, *words = shlex.split(blocks["sh"][0].partition(">")[0])
    require(command == "piecework", "the page has another command")
    log = folder / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "piecework_orchestrator", *words],
            cwd=folder,
            env=environment(folder) | {"PIECEWORK_LOG_LEVEL": "info"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        now = datetime.now(UTC)
        rest = len(process.stdout.read().splitlines())
    require(process.returncode == 0 and rest == CHUNKS - 1, "`piecework run` failed")
    return (now - ended_at(log, first["chunk"])).total_seconds()


def ended_at(log: Path, chunk: int) -> datetime:
    """Return when a worker logged that a chunk has succeeded."""
    for line in log.read_text().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "chunk.succeeded" and event["chunk"] == chunk:
            return datetime.fromisoformat(event["timestamp"])
    raise SystemExit(f"the log does not have the end of chunk {chunk}")


def typing_errors_caught(folder: Path) -> str:
    """Return `all` if each wrong program in the folder is refused, else why not."""
    if not folder.exists():
        return "unknown"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", folder], cwd=ROOT, check=False
    )
    return ALL if done.returncode == 0 else "some"


def on_embedded_aws(folder: Path) -> dict[str, float]:
    """Return the figures of a client and a worker in processes of their own."""
    piecework = ["-m", "piecework_orchestrator"]
    job = ["onboarding_rows:pipeline", "few.jsonl", "--job-id", "job-1"]
    (folder / "few.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    returns = folder / "returns-to-client"
    env = environment(folder) | {"ONBOARDING_RETURNS": str(returns)}
    run([*piecework, "up"], folder, env)
    worker = subprocess.Popen(
        [sys.executable, "-m", "piecework_worker", "--pipelines", "onboarding_rows"],
        cwd=folder,
        env=env,
        stderr=subprocess.DEVNULL,
    )
    try:
        run([*piecework, "submit", *job, "--wait"], folder, env)
        cpu_s = least_cpu_s([*piecework, "jobs", "show", "job-1"], folder)
        returns.unlink()
        chunk, seen_at = run(["-c", PROGRAM], folder, env).split()
    finally:
        worker.terminate()
        worker.wait()
        run([*piecework, "down"], folder, env)
    seen_s = float(seen_at) - returned_at(returns, chunk)
    return {"first_client_result_s": round(seen_s, 2), "jobs_show_cpu_s": cpu_s}


def returned_at(returns: Path, chunk: object) -> float:
    """Return the time at which the stage of a chunk returned."""
    lines = returns.read_text().splitlines()
    return float(dict(line.split() for line in lines)[str(chunk)])


def least_cpu_s(words: Sequence[str], folder: Path) -> float:
    """Return the least CPU seconds, user and system, of several runs of Python."""
    return round(min(cpu_s(words, folder) for _ in range(RUNS + 1)), 2)


def cpu_s(words: Sequence[str], folder: Path) -> float:
    """Return the CPU seconds of one run of Python."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    require(process.returncode == 0, f"{' '.join(words)} failed")
    return usage.ru_utime + usage.ru_stime


def run(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> str:
    """Run Python to its end; return its standard output."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, check=False
    )
    require(done.returncode == 0, f"{' '.join(words)}: {done.stderr.decode()}")
    return done.stdout.decode()


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a user without AWS, and with the folder's own module."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PIECEWORK_")) or name == "PIECEWORK_CACHE_DIR"
    }
    return kept | {"PYTHONPATH": str(folder), "PIECEWORK_STATE_DIR": str(folder)}


def require(condition: bool, problem: str) -> None:  # noqa: FBT001 -- an assertion
    """End the program if a run failed: a figure of it would mean nothing."""
    if not condition:
        raise SystemExit(problem)


if __name__ == "__main__":
    raise SystemExit(main())
