"""Guarantee: a run goes on after its process died; what it has paid for stays paid."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from piecework.errors import UsageError
from piecework.settings import Settings
from piecework_simulation.aws.s3 import Object
from piecework_simulation.in_process import InProcessAws
from piecework_simulation.state.file import StateFile, opened
from piecework_simulation.state.place import state_home
from tests.client.conftest import Run

ROWS, SLOTS = 30, 4
#: The moments of a kill: after so many lines of the book, and some later.
MOMENTS = (1, 9, 20, 33, 50)
PIPELINE = """
import asyncio, os
from pydantic import BaseModel
from piecework import Dependency, Effect, PermanentError, pipeline


class Row(BaseModel):
    n: int


model = Dependency("model", timeout=30)
mail = Dependency("mail", effect=Effect.PROVIDER_IDEMPOTENT, timeout=5)


def book(*words):
    with open("book.txt", "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@model.call
async def ask(n: int) -> int:
    book("begin", n)
    await asyncio.sleep(0.02)
    book("end", n)
    return n * n


@mail.call
async def send(n: int, idempotency_key: str = "") -> str:
    book("effect", n, idempotency_key)
    return "sent"


@pipeline
async def squares(row: Row) -> int:
    value = await ask(row.n)
    if row.n == 7 and "FIXED" not in os.environ and "SEVEN" in os.environ:
        raise PermanentError("no sevens", code="square.number.seven")
    await send(row.n)
    if row.n == 7 and "HANGS" in os.environ:
        await asyncio.sleep(600)
    return value


@squares.join
async def total(results) -> int:
    found = sum([result.value async for result in results])
    book("join", found)
    if "STUCK" in os.environ:
        await asyncio.sleep(600)
    return found
"""


DOCUMENTS = """
from pydantic import BaseModel
from piecework import pipeline


class Part(BaseModel):
    text: str


@pipeline
async def words(part: Part) -> int:
    return len(part.text.split())


@words.split
def whole(document):
    yield Part(text=document.text)
"""


@pytest.fixture
def rows(project: Path) -> Path:
    """Write the pipeline and its rows into the folder of the test."""
    (project / "app.py").write_text(PIPELINE, encoding="utf-8")
    lines = [json.dumps({"n": n}) + "\n" for n in range(ROWS)]
    (project / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    return project / "rows.jsonl"


def book(folder: Path) -> list[list[str]]:
    """Return the lines that the pipeline wrote about calls and effects."""
    found = folder / "book.txt"
    text = found.read_text("utf-8") if found.exists() else ""
    return [line.split() for line in text.splitlines()]


def values(stdout: str) -> dict[int, object]:
    found = [json.loads(line) for line in stdout.splitlines()]
    return {each["chunk"]: each.get("value") for each in found}


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "piecework_orchestrator", "run", "app:squares"]
    slots = ("--max-chunks", str(SLOTS))
    return subprocess.Popen(
        [*command, "rows.jsonl", *slots, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "piecework_orchestrator", *words],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )


def state_files() -> list[Path]:
    home = state_home()
    return list(home.iterdir()) if home.exists() else []


def test_a_killed_run_goes_on_and_pays_only_for_calls_in_flight_again(
    project: Path, rows: Path
) -> None:
    del rows
    for moment in MOMENTS:
        process = start(project)
        while len(book(project)) < moment and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.communicate()
    (file,) = [each for each in state_files() if each.suffix == ".state"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    process = start(project)
    out, err = process.communicate(timeout=90)

    assert (process.returncode, len(state_files())) == (0, 0), err
    assert re.search(r"continues the run of \d\d:\d\d, \d+ of 30 done", err)
    assert values(out) == {n: n * n for n in range(ROWS)}
    paid = Counter(line[1] for line in book(project) if line[0] == "begin")
    assert paid.keys() == {str(n) for n in range(ROWS)}
    assert paid.total() - ROWS <= len(MOMENTS) * SLOTS
    effects = {tuple(line[1:]) for line in book(project) if line[0] == "effect"}
    assert len(effects) == ROWS  # a repeated one has the same key


def test_two_workers_have_one_state_file_and_end_with_their_parent(
    project: Path, rows: Path
) -> None:
    del rows
    held = PIPELINE.replace('"begin", n', '"begin", n, os.getpid()').replace(
        "await asyncio.sleep(0.02)",
        'while not os.path.exists("go"):\n        await asyncio.sleep(0.02)',
    )
    (project / "app.py").write_text(held, encoding="utf-8")
    process = start(project, "--workers", "2")
    until(lambda: len(begun(project)) == 2 * SLOTS or process.poll() is not None)
    (other,) = {int(line[2]) for line in begun(project)} - {process.pid}
    process.kill()
    process.communicate()
    until(lambda: not is_running(other))
    (project / "go").touch()

    process = start(project, "--workers", "2")
    out, err = process.communicate(timeout=90)

    assert (process.returncode, len(state_files())) == (0, 0), err
    assert "continues the run of" in err
    assert values(out) == {n: n * n for n in range(ROWS)}
    assert len(begun(project)) - ROWS <= 2 * SLOTS
    assert not any(is_running(int(line[2])) for line in begun(project))


def begun(folder: Path) -> list[list[str]]:
    return [line for line in book(folder) if line[0] == "begin"]


def until(condition: Callable[[], bool]) -> None:
    late = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        # A dead process whose parent does not wait for it is there in name only.
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False


def test_a_run_that_was_killed_in_its_join_goes_on_with_it(
    project: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    monkeypatch.setenv("STUCK", "1")
    process = start(project)
    while "join" not in {line[0] for line in book(project)}:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    monkeypatch.delenv("STUCK")
    began = time.monotonic()
    process = start(project)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, len(values(out)), state_files()) == (0, ROWS, []), err
    assert time.monotonic() - began < 55  # a lease lasts 60 s
    calls = Counter(line[1] for line in book(project) if line[0] == "begin")
    assert set(calls.values()) == {1}


def test_a_dead_row_keeps_its_run_until_it_is_mended(
    project: Path, rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    monkeypatch.setenv("SEVEN", "1")
    done = run("app:squares", "rows.jsonl")
    assert done.exit_code == 5
    (file,) = state_files()
    assert f"piecework dlq list --state {file}" in done.stderr
    again = run("app:squares", "rows.jsonl")
    assert (again.exit_code, values(again.stdout)) == (5, values(done.stdout))
    at = ("--state", str(file))
    (letter,) = json.loads(command(project, "dlq", "list", "-o", "json", *at).stdout)
    assert letter["error_code"] == "square.number.seven"
    job = letter["job"]
    told = command(project, "dlq", "show", job, "7", *at)
    named = f"piecework dlq redrive --state {file} --job {job} --chunk 7"
    # A terminal of 80 columns breaks the line.
    assert named in " ".join(f"{told.stdout} {told.stderr}".split())
    (found,) = json.loads(command(project, "dlq", "stats", "-o", "json", *at).stdout)
    assert f"piecework dlq redrive --state {file} --fingerprint" in found["next"]
    absent = command(project, "jobs", "show", "nothing", *at)
    assert f"piecework jobs list --state {file}" in absent.stderr
    shown = command(project, "chunks", "show", job, "7", "-o", "json", *at)
    assert json.loads(shown.stdout)["status"] == "DEAD"
    written = command(project, "results", job, "--to", "out.csv", *at)
    assert written.returncode == 0, written.stderr
    assert len((project / "out.csv").read_text("utf-8").splitlines()) == ROWS + 1
    redrive = ("dlq", "redrive", "--job", job, "--reason", "a fix", "--yes")
    assert command(project, *redrive, f"--state={file}").returncode == 0

    monkeypatch.setenv("FIXED", "1")
    last = run("app:squares", "rows.jsonl")
    assert (last.exit_code, state_files()) == (0, [])
    assert values(last.stdout) == {n: n * n for n in range(ROWS)}
    paid = Counter(line[1] for line in book(project) if line[0] == "begin")
    assert set(paid.values()) == {1}


def test_commands_on_the_file_of_a_dead_run_name_its_line_and_do_not_wait(
    project: Path, rows: Path
) -> None:
    process = start(project, "--state", "kept.state")
    while len(book(project)) < 9:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    line = f"piecework run app:squares {rows.name} --max-chunks {SLOTS}"
    line += " --state kept.state"
    at, form = ("--state", "kept.state"), ("-o", "json")
    (listed,) = json.loads(command(project, "jobs", "list", *form, *at).stdout)
    job = listed["job"]
    explained = command(project, "jobs", "explain", job, *form, *at)
    # The leases of the dead process have not expired yet.
    (finding,) = json.loads(explained.stdout)["findings"]
    assert ("workers.none", line) == (finding["code"], finding["next"])
    assert f"next      {line}" in command(project, "jobs", "show", job, *at).stdout
    for waits in (("jobs", "watch", job), ("results", job, "--follow")):
        ended = command(project, *waits, *at)
        assert ended.returncode == 2, ended.stderr
        assert "error run.state.idle: " in ended.stderr
        assert f"next: {line}" in ended.stderr
    elsewhere = command(
        Path("/"), "jobs", "explain", job, "--state", str(project / at[1])
    )
    assert f"next: cd {project} && {line}" in elsewhere.stderr


def test_a_file_that_is_named_stays_and_one_that_is_off_is_not_written(
    project: Path, rows: Path, run: Run
) -> None:
    del rows
    assert run("app:squares", "rows.jsonl", "--no-state").exit_code == 0
    calls = len(book(project))
    named = ("--state", "kept.state")
    first = run("app:squares", "rows.jsonl", *named)
    assert (first.exit_code, len(book(project))) == (0, 2 * calls)
    second = run("app:squares", "rows.jsonl", *named)
    assert "30 of 30 done" in second.stderr
    assert values(second.stdout) == values(first.stdout)
    assert len(book(project)) == 2 * calls
    assert run("app:squares", "rows.jsonl", *named, "--fresh").exit_code == 0
    assert len(book(project)) == 3 * calls
    assert state_files() == []
    both = run("app:squares", "rows.jsonl", *named, "--no-state")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)


def test_another_process_gets_the_id_of_the_first_one(
    project: Path, rows: Path, run: Run
) -> None:
    del rows
    with opened(project / "mine.state"):
        done = run("app:squares", "rows.jsonl", "--state", "mine.state")
    assert (done.exit_code, book(project)) == (2, [])
    said = f"run.state.in_use: Process {os.getpid()} has {project}/mine.state open"
    assert said in done.stderr


def test_other_rows_other_formats_and_other_files_are_refused_with_a_code(
    project: Path, rows: Path, run: Run
) -> None:
    line = ("app:squares", "rows.jsonl", "--state")
    (project / "notes.txt").write_text("mine" * 100, encoding="utf-8")
    with sqlite3.connect(project / "other.db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for name in ("notes.txt", "other.db"):
        before = (project / name).read_bytes()
        for more in ((), ("--fresh",)):
            done = run(*line, name, *more)
            assert (done.exit_code, "run.state.foreign" in done.stderr) == (2, True)
        assert (project / name).read_bytes() == before
    assert run(*line, "new.state").exit_code == 0
    rows.write_text('{"n": 1}\n', encoding="utf-8")
    done = run(*line, "new.state")
    assert (done.exit_code, "run.input.changed" in done.stderr) == (2, True)
    with sqlite3.connect(project / "new.state") as later:
        later.execute("PRAGMA user_version = 99")
    later.close()
    done = run(*line, "new.state")
    assert (done.exit_code, "run.state.version" in done.stderr) == (2, True)
    for folder in ("/", "."):
        named = command(project, "run", *line, folder)
        assert (named.returncode, "cli.usage.invalid" in named.stderr) == (2, True)
        with pytest.raises(UsageError) as refused, opened(Path(folder)):
            pass
        assert refused.value.code == "run.state.unwritable"
    absent = command(project, "jobs", "list", "--state", "absent.state")
    assert (absent.returncode, "run.state.absent" in absent.stderr) == (3, True)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let SQLite have few pages, as on a disk that is nearly full."""
    prepare = StateFile._prepare

    def limited(file: StateFile) -> None:
        prepare(file)
        file._connection.execute("PRAGMA max_page_count = 18")

    with monkeypatch.context() as patch:
        patch.setattr(StateFile, "_prepare", limited)
        yield


def test_a_full_disk_ends_the_run_with_a_code_and_loses_nothing(
    project: Path, rows: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    del rows
    request.getfixturevalue("small_disk")
    began = time.monotonic()
    full = run("app:squares", "rows.jsonl", "--state", "a.state")
    assert (full.exit_code, "run.state.unwritable" in full.stderr) == (2, True)
    assert time.monotonic() - began < 30
    paid = {line[1] for line in book(project) if line[0] == "end"}
    assert paid

    process = start(project, "--state", "a.state")
    out, err = process.communicate(timeout=90)
    assert (process.returncode, len(values(out))) == (0, ROWS), err
    counted = Counter(line[1] for line in book(project) if line[0] == "begin")
    assert counted.total() - ROWS <= SLOTS + 16


def test_a_folder_that_cannot_be_written_costs_the_memory_of_the_run_alone(
    project: Path, rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    (project / "taken").write_text("a file", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "taken"))
    done = run("app:squares", "rows.jsonl")
    assert (done.exit_code, len(values(done.stdout))) == (0, ROWS)
    assert "this run is not remembered" in done.stderr


def test_a_folder_is_read_without_its_links_that_lead_out(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "docs.py").write_text(DOCUMENTS, encoding="utf-8")
    folder = project / "folder"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.txt").write_text("one two", encoding="utf-8")
    (folder / "out.txt").symlink_to("/proc/1/cwd/x.txt")
    (folder / "out").symlink_to("/proc/1")
    done = run("docs:words", "folder", "--state", "kept.state")
    assert (done.exit_code, values(done.stdout)) == (0, {0: 2}), done.stderr

    real = Path.open

    def refused(path: Path, *words: object, **options: object) -> object:
        if path.name == "a.txt":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refused)
    done = run("docs:words", "folder", "--state", "kept.state")
    assert done.exit_code == 2
    assert "error input.file.unreadable: " in done.stderr


def test_a_run_that_was_refused_leaves_nothing(
    project: Path, rows: Path, run: Run
) -> None:
    rows.write_text('{"m": 1}\n', encoding="utf-8")
    assert (run("app:squares", "rows.jsonl").exit_code, state_files()) == (2, [])


def test_changed_code_is_named(
    project: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    process = start(project)
    while len(book(project)) < 20:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "the same line goes on" in err) == (130, True)
    monkeypatch.setenv("PIECEWORK_CODE_VERSION", "the-next-one")
    process = start(project)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, len(values(out))) == (0, ROWS)
    assert re.search(r"the code has changed: files:\w+ -> the-next-one", err)


def test_newer_code_that_must_not_go_on_ends_its_row_at_once(
    project: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del rows
    monkeypatch.setenv("HANGS", "1")
    process = start(project)
    while not any(line[:2] == ["effect", "7"] for line in book(project)):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    monkeypatch.delenv("HANGS")
    app = project / "app.py"
    changed = app.read_text("utf-8").replace("await send(row.n)", "await send(-row.n)")
    app.write_text(changed, encoding="utf-8")
    process = start(project)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 5, err
    assert "runtime.code.changed" in err
    assert re.search(r"next: piecework jobs accept-changes --state \S+ \S+ --dry", err)
    assert 7 not in {c for c, value in values(out).items() if value is not None}
    assert ["-7"] not in [line[1:2] for line in book(project)]


# ── the file ─────────────────────────────────────────────────────────────────

ITEM = {
    "pk": {"S": "a"},
    "sk": {"S": "b"},
    "bytes": {"B": b"\x00\xff"},
    "set": {"BS": [b"\x00", b"\xfe"]},
    "deep": {"M": {"list": {"L": [{"B": b"\xff"}, {"NULL": True}, {"N": "1.5"}]}}},
    "text": {"S": 'ü "B": \U0001f600'},
}


def models() -> InProcessAws:
    return InProcessAws(Settings())


def test_models_that_are_filled_from_the_file_hold_what_was_written(
    tmp_path: Path,
) -> None:
    aws, path = models(), tmp_path / "a.state"
    table = aws.settings.checkpoints_table
    with opened(path) as file:
        file.attach(aws)
        for sk in "bcd":
            item = {**ITEM, "sk": {"S": sk}}
            aws.dynamodb.call("put_item", {"TableName": table, "Item": item})
        key = {"pk": {"S": "a"}, "sk": {"S": "c"}}
        aws.dynamodb.call("delete_item", {"TableName": table, "Key": key})
        put = {"Bucket": aws.bucket, "Key": "x", "Body": b"\x00", "ContentType": "a/b"}
        aws.s3.call("put_object", put)
        aws.s3.call("put_object", {**put, "Key": "y"})
        aws.s3.call("delete_object", {"Bucket": aws.bucket, "Key": "y"})
    again = models()
    with opened(path) as file:
        file.attach(again)
    found = again.dynamodb.call("scan", {"TableName": table})["Items"]
    assert found == [ITEM, {**ITEM, "sk": {"S": "d"}}]
    assert again.s3.names(again.bucket) == ["x"]
    get = {"Bucket": aws.bucket, "Key": "x"}
    assert again.s3.call("get_object", get)["ContentType"] == "a/b"


def test_each_write_is_whole_and_none_follows_one_that_failed(tmp_path: Path) -> None:
    aws, path, failures = models(), tmp_path / "a.state", list[UsageError]()
    table, numbers = aws.settings.checkpoints_table, count()

    def put(size: int, number: int) -> None:
        items = [
            {"pk": {"S": f"p{next(numbers)}"}, "sk": {"S": "s"}, "v": {"S": "x" * size}}
            for _ in range(number)
        ]
        actions = [{"Put": {"TableName": table, "Item": each}} for each in items]
        aws.dynamodb.call("transact_write_items", {"TransactItems": actions})

    with opened(path) as file:
        file.attach(aws)
        file.on_failure = failures.append
        put(10, 3)
        file._connection.execute("PRAGMA max_page_count = 20")
        for _ in "12":
            with pytest.raises(UsageError) as full:
                put(20_000, 5)
        with pytest.raises(UsageError):
            file.keep_object("bucket", "x", Object(b"", "a/b", 0.0))
    assert [each.code for each in failures] == ["run.state.unwritable"]
    assert full.value is failures[0]
    with opened(path) as file:
        (stored,) = file._connection.execute("SELECT count(*) FROM items").fetchone()
    assert stored == 3


def test_an_effect_is_flushed_to_the_disk_and_other_writes_are_not(
    tmp_path: Path,
) -> None:
    aws = models()
    table, traced = aws.settings.checkpoints_table, list[str]()
    with opened(tmp_path / "a.state") as file:
        file.attach(aws)
        file._connection.set_trace_callback(traced.append)
        for sk in ("CHUNK#00000001", "WORK#00000001#EFFECT#abc"):
            item = {"pk": {"S": "p"}, "sk": {"S": sk}}
            aws.dynamodb.call("put_item", {"TableName": table, "Item": item})
    kinds = [line.partition(" (")[0][:24] for line in traced if "COMMIT" not in line]
    assert kinds == [
        "INSERT INTO items VALUES",
        "PRAGMA synchronous = FUL",
        "INSERT INTO items VALUES",
        "PRAGMA synchronous = NOR",
    ]
