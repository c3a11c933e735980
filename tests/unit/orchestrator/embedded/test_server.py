"""Starting and stopping a process that may not be what we think it is."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from orchestrator.embedded import server
from piecework.errors import UnreachableError


def fake_python(folder: Path, script: str) -> Path:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def test_a_server_that_dies_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    python = fake_python(tmp_path, "echo the port is cursed >&2; exit 3")
    with pytest.raises(UnreachableError, match="the port is cursed") as failed:
        server.start(python, tmp_path, "us-east-1")
    assert failed.value.code == "embedded.server.not_healthy"
    assert "ended with 3" in str(failed.value)


def test_a_server_that_never_answers_is_stopped_at_the_deadline(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "child"
    python = fake_python(tmp_path, f'echo $$ > "{pid_file}"; exec sleep 60')
    with pytest.raises(UnreachableError, match="did not answer in time"):
        server.start(python, tmp_path, "us-east-1", health_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_process_that_only_took_over_the_pid_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:  # noqa: S607 - any will do
        try:
            server.stop(stranger.pid, tmp_path)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_server_is_not_given_the_callers_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "real")
    monkeypatch.setenv("AWS_PROFILE", "production")
    given = server.surroundings(1, "us-east-1", "sqs")
    assert not [name for name in given if name.startswith("AWS_")]
    assert given["BIND_HOST"] == "127.0.0.1"
