"""Start and stop the server process; other processes are left alone."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from piecework.errors import UnreachableError
from piecework_orchestrator import embedded
from piecework_orchestrator.embedded import server


def fake_python(folder: Path, script: str) -> Path:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def test_a_server_that_exits_is_reported_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    python = fake_python(tmp_path, "echo the port is broken >&2; exit 3")
    with pytest.raises(UnreachableError, match="the port is broken") as failed:
        server.start(python, tmp_path, "us-east-1")
    assert failed.value.code == "embedded.server.not_healthy"
    assert "exited with code 3" in str(failed.value)


def test_a_server_that_never_answers_is_stopped_at_the_deadline(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "child"
    python = fake_python(tmp_path, f'echo $$ > "{pid_file}"; exec sleep 60')
    with pytest.raises(UnreachableError, match="did not respond in time"):
        server.start(python, tmp_path, "us-east-1", health_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


#: A process with the server's command line that never responds.
SERVES = "while :; do sleep 0.01; done"


def answering(folder: Path) -> Callable[[str, float], str]:
    """Return a version once the server runs, a moment after its start."""

    def fetch_version(_endpoint: str, _timeout_s: float) -> str:
        pid = int(next(folder.glob("*.pid")).read_text("utf-8"))
        while not server.is_our_server(pid, folder):
            time.sleep(0.005)
        return "1.5.33"

    return fetch_version


def interrupted(_endpoint: str, _timeout_s: float) -> str:
    raise KeyboardInterrupt


def test_an_interrupted_start_leaves_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "fetch_version", interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.start(fake_python(tmp_path, SERVES), tmp_path, "us-east-1")

    pid = int(next(tmp_path.glob("*.pid")).read_text("utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_down_stops_the_server_of_a_killed_up_in_a_renamed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    monkeypatch.setattr(server, "fetch_version", answering(before))
    started = server.start(fake_python(tmp_path, SERVES), before, "us-east-1")
    before.rename(after)
    assert server.is_our_server(started.pid, after)

    embedded.down(after)
    assert not server.command_line(started.pid)


def test_the_next_up_replaces_the_server_of_a_killed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = fake_python(tmp_path, SERVES)
    monkeypatch.setattr(server, "fetch_version", answering(tmp_path))
    monkeypatch.setattr(
        embedded.environment, "ensure_environment", lambda report: python
    )
    monkeypatch.setattr(embedded.deploy, "deploy_embedded", lambda *_: None)
    monkeypatch.setattr(server, "answers", lambda _: False)
    untracked = server.start(python, tmp_path, "us-east-1")

    found = embedded.up("piecework", "local", tmp_path)
    alive = [server.is_our_server(each.pid, tmp_path) for each in (untracked, found)]
    embedded.down(tmp_path)
    assert [False, True] == alive
    assert not server.is_our_server(found.pid, tmp_path)


def test_without_proc_a_server_in_a_folder_with_a_space_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "My Project"
    folder.mkdir()
    monkeypatch.setattr(server, "fetch_version", answering(folder))
    monkeypatch.setattr(server, "PROC", tmp_path / "there is none")
    started = server.start(fake_python(tmp_path, SERVES), folder, "us-east-1")
    try:
        assert server.is_our_server(started.pid, folder)
        assert not server.is_our_server(started.pid, tmp_path)
    finally:
        os.kill(started.pid, signal.SIGKILL)
        os.waitpid(started.pid, 0)


def test_a_process_that_reused_the_pid_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:  # noqa: S607 - any will do
        try:
            server.stop(other.pid, tmp_path)
            assert other.poll() is None
        finally:
            other.kill()


def test_the_server_does_not_get_the_callers_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "real")
    monkeypatch.setenv("AWS_PROFILE", "production")
    given = server.server_environment(1, "us-east-1", "sqs")
    assert not [name for name in given if name.startswith("AWS_")]
    assert given["BIND_HOST"] == "127.0.0.1"
