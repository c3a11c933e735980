"""The state file: found in folders above, replaced atomically, refused if invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from piecework.errors import UsageError
from piecework_orchestrator.embedded import server

EMULATOR = Emulator("http://127.0.0.1:41233", 1, "us-east-1", "1.5.33")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIECEWORK_STATE_DIR", raising=False)
    return tmp_path / "project"


def test_the_state_is_found_from_a_folder_below(project: Path) -> None:
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    home = server.resolve_folder(None, project)
    with server.lock(home):
        server.write(home, EMULATOR)
    assert server.find(below) == EMULATOR


def test_a_configured_state_folder_overrides_one_above(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = server.resolve_folder(None, project)
    with server.lock(home):
        server.write(home, EMULATOR)
    chosen = project / "elsewhere"
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(chosen))
    assert server.resolve_folder(None, project) == chosen
    assert server.find(project) is None


def test_a_removed_emulator_is_not_found(project: Path) -> None:
    home = server.resolve_folder(None, project)
    with server.lock(home):
        server.write(home, EMULATOR)
        server.remove(home)
        server.remove(home)
    assert server.find(project) is None


def test_the_state_folder_is_ignored_by_version_control(project: Path) -> None:
    home = server.resolve_folder(None, project)
    with server.lock(home):
        pass
    assert (home / ".gitignore").read_text() == "*\n"


def test_a_write_leaves_no_temporary_file(project: Path) -> None:
    home = server.resolve_folder(None, project)
    with server.lock(home):
        server.write(home, EMULATOR)
    names = {path.name for path in home.iterdir()}
    assert names == {".gitignore", "emulator.json", "emulator.lock"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint": 1, "pid": "x"}'])
def test_a_damaged_state_file_is_refused_with_its_name(
    project: Path, text: str
) -> None:
    home = server.resolve_folder(None, project)
    home.mkdir(parents=True)
    (home / "emulator.json").write_text(text)
    with pytest.raises(UsageError, match=r"emulator\.json") as refused:
        server.find(project)
    assert refused.value.code == "embedded.state.unreadable"


def test_a_state_file_that_cannot_be_read_is_refused_with_its_name(
    project: Path,
) -> None:
    home = server.resolve_folder(None, project)
    (home / "emulator.json").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"emulator\.json") as refused:
        server.find(project)
    assert refused.value.code == "embedded.state.unreadable"


def test_a_folder_that_is_not_writable_is_refused_with_a_next_step(
    project: Path,
) -> None:
    project.write_text("no folder")
    with (
        pytest.raises(UsageError, match=str(project)) as refused,
        server.lock(project / "below"),
    ):
        pass
    assert "PIECEWORK_STATE_DIR" in refused.value.next_step


def test_an_error_under_the_lock_is_raised_unchanged(project: Path) -> None:
    with pytest.raises(FileNotFoundError), server.lock(project):
        raise FileNotFoundError
