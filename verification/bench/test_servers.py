"""The servers of the rivals that do not stand on SQS; no rival is run here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.rivals import local_server, postgres, redis_server, temporal_server
from bench.rivals.local_server import UnavailableError
from tests.apart import NotInstalledError

LISTENS = (
    "import socket, sys, time; s = socket.socket(); "
    "s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); print('up'); time.sleep(60)"
)


@pytest.fixture
def _ended() -> Iterator[None]:
    yield
    local_server.end("here")


@pytest.mark.usefixtures("_ended")
def test_a_server_is_waited_for_and_ended(tmp_path: Path) -> None:
    port = local_server.free_port()
    command = [sys.executable, "-S", "-c", LISTENS, port]

    local_server.launch("here", command, tmp_path, port)

    assert local_server.answers(port)
    assert 0 < local_server.pid_of("here")
    local_server.end("here")
    assert not local_server.answers(port)


@pytest.mark.usefixtures("_ended")
def test_a_server_that_does_not_start_is_told_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "raise SystemExit('no memory')"]

    with pytest.raises(UnavailableError, match="here did not start: no memory"):
        local_server.launch("here", command, tmp_path, local_server.free_port())


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Path:
        raise NotInstalledError(f"{name}: no index")

    for module in (postgres, local_server):
        monkeypatch.setattr(module, "bin_of", refuse)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("server", [redis_server, temporal_server])
def test_a_server_of_a_wheel_that_is_not_to_be_had_is_unavailable(
    server: object, tmp_path: Path
) -> None:
    with pytest.raises(UnavailableError, match="no index"):
        server.start(tmp_path)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("nothing_installed")
def test_without_a_wheel_postgresql_is_the_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "17" / "bin"
    home.mkdir(parents=True)
    (home / "postgres").symlink_to("/bin/true")
    monkeypatch.setattr(postgres, "MACHINES", tmp_path)

    assert home == postgres.programs({})


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_postgresql_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres, "MACHINES", tmp_path)

    with pytest.raises(UnavailableError, match="neither the wheel nor the machine"):
        postgres.programs({})


def test_root_hands_postgresql_to_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres.os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres, "OWNER", "no-such-user")

    assert 0 < postgres.identity()["user"]


def test_root_alone_on_its_machine_has_no_postgresql(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres.os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres, "OWNER", "no-such-user")
    monkeypatch.setattr(postgres, "OVERFLOW_UID", 4_000_000_000)

    with pytest.raises(UnavailableError, match="does not run as root"):
        postgres.identity()
