"""Rivals that do not stand on SQS, and their servers; no rival is run here."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.rivals import local_server, postgres, redis_server, temporal_server
from bench.rivals.local_server import UnavailableError
from tests.apart import ROOT, NotInstalledError
from verification.bench.test_rivals_sqs import imported_by, tree_of

#: What each may import beside the standard library, and the lock that brings it.
SCRIPTS = {
    "dbos_pg": ({"dbos", "psycopg", "sqlalchemy"}, "bench-postgres"),
    "procrastinate_pg": ({"procrastinate", "psycopg"}, "bench-postgres"),
    "saq_redis": ({"saq"}, "bench-postgres"),
    "temporal_dev": ({"temporalio"}, "bench-temporal"),
}
LISTENS = (
    "import socket, sys, time; s = socket.socket(); "
    "s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); print('up'); time.sleep(60)"
)

each_script = pytest.mark.parametrize("name", SCRIPTS)
each_lock = pytest.mark.parametrize("name", ["bench-postgres", "bench-temporal"])


@each_script
def test_a_script_imports_its_rival_and_nothing_of_ours(name: str) -> None:
    outside = imported_by(tree_of(name)) - sys.stdlib_module_names

    assert SCRIPTS[name][0] | {"protocol"} == outside


@each_script
def test_a_script_has_the_four_commands_and_says_how_it_was_set_up(name: str) -> None:
    tree = tree_of(name)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    (main,) = [node for node in calls if ast.unparse(node.func) == "protocol.main"]

    verbs = [ast.unparse(each) for each in main.args]
    assert ["setup", "enqueue", "work", "teardown"] == verbs
    assert 10 < len((ast.get_docstring(tree) or "").splitlines())


@each_script
def test_what_a_script_imports_is_in_its_environment(name: str) -> None:
    packages, lock = SCRIPTS[name]
    locked = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")

    assert packages == {each for each in packages if f"\n{each}==" in locked}


@each_script
def test_no_file_beside_a_script_hides_a_package_that_it_imports(name: str) -> None:
    rival_step = {each.stem for each in (ROOT / "bench" / "rivals").glob("*.py")}

    assert {"protocol"} == rival_step & imported_by(tree_of(name))


@each_lock
def test_every_package_of_an_environment_is_locked_by_its_hash(name: str) -> None:
    locked = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    entries = re.split(r"\n(?=[a-z])", locked)
    pinned = [entry for entry in entries if "==" in entry.splitlines()[0]]

    assert 5 < len(pinned)
    assert [] == [entry for entry in pinned if "--hash=sha256:" not in entry]


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
