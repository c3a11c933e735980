"""`dlq stats` and `dlq export`: dead letters counted, and exported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from piecework.errors import StoreError
from piecework.errors.fingerprint import fingerprint
from tests.unit.orchestrator.cli.deployment import Bucket, Deployment

Run = Callable[..., Any]
EARLY, LATE = "2027-01-15T07:00:00.000Z", "2027-01-15T07:30:00.000Z"
TIMEOUT = fingerprint("llm.http.503", "shout", "Call 7 timed out.")


@pytest.fixture(autouse=True)
def letters(here: Deployment) -> None:
    here.job("a", "PARTIAL", 3)
    here.job("b", "PARTIAL", 1)
    busy = {"error_code": "llm.http.503", "owner": "ops", "runbook": "https://r/1"}
    here.letter("a", 0, error="Call 1 timed out.", dead_lettered_at=EARLY, **busy)
    here.letter("b", 0, error="Call 22 timed out.", dead_lettered_at=LATE, **busy)
    here.letter("a", 1)
    here.letter("a", 2, state="DISCARDED", discarded_by="me@here")


def groups(run: Run, *options: str) -> list[dict[str, Any]]:
    found = json.loads(run("dlq", "stats", "-o", "json", *options).stdout)
    assert isinstance(found, list)
    return found


def test_letters_of_one_cause_are_one_complete_row(run: Run) -> None:
    first, second = groups(run)
    assert {
        "fingerprint": TIMEOUT,
        "count": 2,
        "error_code": "llm.http.503",
        "error_class": "permanent",
        "stage": "shout",
        "jobs": ["a", "b"],
        "first_died_at": EARLY,
        "last_died_at": LATE,
        "pipelines": [""],
        "owner": "ops",
        "runbook": "https://r/1",
        "sample": {"job": "b", "chunk": 0, "error": "Call 22 timed out."},
        "next": "piecework dlq show b 0, then piecework dlq redrive "
        f"--fingerprint {TIMEOUT} --canary 1 --reason 'the fix'",
    } == first
    assert ("toy.line.bad", 1) == (second["error_code"], second["count"])


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (["--all"], [2, 2]),
        (["--job", "b"], [1]),
        (["--code", "toy.*"], [1]),
        (["--fingerprint", TIMEOUT], [2]),
        (["--since", "45m"], [1, 1]),
        (["--limit", "1"], [2]),
        (["--stage", "nowhere"], []),
    ],
)
def test_the_counted_letters_are_filtered(
    run: Run, options: list[str], counts: list[int]
) -> None:
    assert counts == [group["count"] for group in groups(run, *options)]


def test_the_table_ends_with_the_next_command(run: Run) -> None:
    done = run("dlq", "stats")
    assert 3 == len(done.stdout.splitlines())
    assert "next: piecework dlq show b 0, then piecework dlq redrive" in done.stderr
    assert "no dead letter matches" in run("dlq", "stats", "--code", "x.*").stderr
    assert "the first 1 of 2" in run("dlq", "stats", "--limit", "1").stderr


def test_an_export_has_one_complete_letter_per_line(run: Run) -> None:
    lines = run("dlq", "export", "--job", "a", "--all").stdout.splitlines()
    found = {one["chunk"]: one for one in map(json.loads, lines)}
    assert {0, 1, 2} == found.keys()
    assert "w1" == found[0]["error_history"][0]["worker"]
    assert TIMEOUT == found[0]["fingerprint"]
    assert not {"pk", "sk", "payload_at"} & found[0].keys()


def test_an_export_goes_to_a_file_with_the_payloads(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "letters.jsonl"
    done = run("dlq", "export", "--job", "a", "--payload", "--to", str(to))
    assert ("", 0) == (done.stdout, done.exit_code)
    assert "2 dead letters written to" in done.stderr
    found = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    assert {"line 0", "line 1"} == {one["payload"]["text"] for one in found}
    assert {"p0/0+18", "p1/0+18"} == {one["payload_at"] for one in found}


@pytest.mark.parametrize("earlier", ["an older export", ""])
def test_an_interrupted_export_leaves_the_old_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    to = tmp_path / "letters.jsonl"
    if earlier:
        to.write_text(earlier)
    read_keys: list[str] = []
    held = Bucket.get

    async def get(bucket: Bucket, key: str, **how: Any) -> bytes:
        if read_keys:
            message = "S3 could not be reached."
            raise StoreError(message, code="aws.service.throttled")
        read_keys.append(key)
        return await held(bucket, key, **how)

    monkeypatch.setattr(Bucket, "get", get)
    done = run("dlq", "export", "--job", "a", "--payload", "--to", str(to))
    assert 6 == done.exit_code
    assert "error aws.service.throttled" in done.stderr
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert ({"letters.jsonl": earlier} if earlier else {}) == found


@pytest.mark.parametrize("to", ["", "letters.jsonl"])
def test_letters_that_cannot_be_exported_are_named_and_the_others_exported(
    here: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    here.letter("a", 1, error_history="[")
    here.letter("a", 2, error_history=1)
    here.letter("a", 3, error_history=1, state="REDRIVEN")
    done = here.run("dlq", "export", "--job", "a", *(("--to", to) if to else ()))
    named = "they cannot be read (runtime.record.unreadable): a/2, a/1\n"
    assert (5, True) == (done.exit_code, named in done.stderr)
    written = Path(to).read_text("utf-8") if to else done.stdout
    (letter,) = map(json.loads, written.splitlines())
    assert 0 == letter["chunk"]


def test_an_export_follows_a_link_and_keeps_the_file_mode(
    run: Run, tmp_path: Path
) -> None:
    to, link = tmp_path / "letters.jsonl", tmp_path / "link"
    to.touch(mode=0o600)
    link.symlink_to(to)
    assert 0 == run("dlq", "export", "--job", "a", "--to", str(link)).exit_code
    assert link.is_symlink()
    assert 2 == len(to.read_text("utf-8").splitlines())
    assert 0o600 == to.stat().st_mode & 0o777


def test_an_export_to_a_pipe_is_written_directly(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert 0 == run("dlq", "export", "--job", "a", "--to", str(pipe)).exit_code
        assert 2 == len(os.read(reader, 65_536).splitlines())
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_an_export_of_one_chunk_names_its_job(run: Run) -> None:
    assert 2 == run("dlq", "export", "--chunk", "0").exit_code
    lines = run("dlq", "export", "--job", "a", "--chunk", "1").stdout.splitlines()
    assert [1] == [json.loads(line)["chunk"] for line in lines]


def test_an_export_to_an_invalid_path_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("dlq", "export", "--to", str(tmp_path / "no" / "file"))
    assert 2 == done.exit_code
    assert "cannot be written" in done.stderr
