"""Kill one run at a moment, and start the same line again until it ends."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from verification.resume.book import Figures, judge

#: Rows of a run, and how many of them run at once.
ROWS, SLOTS = 24, 8
#: Lines of the book that a run writes for each row.
LINES = 3
#: Seconds after which a run that does not end has failed.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Line:
    """A command line that goes on when it is typed again."""

    name: str
    words: Sequence[str]


def trial(line: Line, folder: Path, moments: Sequence[float]) -> Figures:
    """Kill the run once for each moment, start it again, and judge its book.

    A moment is a part of the lines of a whole run: each kill waits for so many lines
    since its start, and then for a part of a call.

    Raises:
        RuntimeError: The run that was not killed has failed.
    """
    book = folder / "book"
    book.touch()
    env = {
        **os.environ,
        "RESUME_BOOK": str(book),
        "PYTHONPATH": paths(),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    for moment in moments:
        process = start(line, folder, env, book)
        seen = book.stat().st_size
        wanted = int(moment * ROWS * LINES)
        while process.poll() is None:
            with book.open("rb") as file:
                file.seek(seen)
                if file.read().count(b"\n") >= wanted:
                    break
            time.sleep(0.001)
        time.sleep(moment * 997 % 1 * 0.02)
        process.kill()
        results = results_of(process.communicate()[0])
        if len(results) == ROWS:  # it has ended before its kill
            return judge(book.read_text("utf-8").splitlines(), results, ROWS)
    process = start(line, folder, env, book)
    out, err = process.communicate(timeout=PATIENCE_S)
    if process.returncode:
        raise RuntimeError(
            f"{line.name} ended with {process.returncode}: {err[-2000:]}"
        )
    return judge(book.read_text("utf-8").splitlines(), results_of(out), ROWS)


def paths() -> str:
    """Return the folder of the pipeline, before the paths of this process."""
    own = str(Path(__file__).parent)
    return os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH")]))


def results_of(out: str) -> set[int]:
    """Return the rows whose results a process has printed; a line may be cut off."""
    lines = out.splitlines(keepends=True)
    return {json.loads(each)["chunk"] for each in lines if each.endswith("\n")}


def start(
    line: Line, folder: Path, env: dict[str, str], book: Path
) -> subprocess.Popen[str]:
    """Start the command in the folder of the run."""
    with book.open("a", encoding="utf-8") as file:
        file.write("start\n")
    return subprocess.Popen(
        line.words,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
