"""The state file: found upwards, replaced whole, refused when it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.embedded import state
from piecework.endpoint import Emulator
from piecework.errors import UsageError

HERE = Emulator("http://127.0.0.1:41233", 1, "us-east-1", "1.5.33")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIECEWORK_STATE_DIR", raising=False)
    return tmp_path / "project"


def test_what_was_written_is_found_from_a_folder_below(project: Path) -> None:
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    home = state.folder(None, project)
    with state.locked(home):
        state.write(home, HERE)
    assert state.find(below) == HERE


def test_a_chosen_state_folder_wins_over_one_upwards(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = state.folder(None, project)
    with state.locked(home):
        state.write(home, HERE)
    chosen = project / "elsewhere"
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(chosen))
    assert state.folder(None, project) == chosen
    assert state.find(project) is None


def test_nothing_is_found_where_nothing_was_started(project: Path) -> None:
    assert state.find(project) is None


def test_a_removed_emulator_is_forgotten(project: Path) -> None:
    home = state.folder(None, project)
    with state.locked(home):
        state.write(home, HERE)
        state.remove(home)
        state.remove(home)
    assert state.find(project) is None


def test_the_state_folder_keeps_itself_out_of_version_control(project: Path) -> None:
    home = state.folder(None, project)
    with state.locked(home):
        pass
    assert (home / ".gitignore").read_text() == "*\n"


def test_a_write_leaves_no_draft_behind(project: Path) -> None:
    home = state.folder(None, project)
    with state.locked(home):
        state.write(home, HERE)
    names = {path.name for path in home.iterdir()}
    assert names == {".gitignore", "emulator.json", "emulator.lock"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint": 1, "pid": "x"}'])
def test_a_damaged_state_file_is_refused_with_its_name(
    project: Path, text: str
) -> None:
    home = state.folder(None, project)
    home.mkdir(parents=True)
    (home / "emulator.json").write_text(text)
    with pytest.raises(UsageError, match=r"emulator\.json") as refused:
        state.find(project)
    assert refused.value.code == "embedded.state.unreadable"


def test_a_state_file_that_cannot_be_read_is_refused_with_its_name(
    project: Path,
) -> None:
    home = state.folder(None, project)
    (home / "emulator.json").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"emulator\.json") as refused:
        state.find(project)
    assert refused.value.code == "embedded.state.unreadable"


def test_a_folder_that_cannot_be_written_to_is_refused_with_another(
    project: Path,
) -> None:
    project.write_text("no folder")
    with (
        pytest.raises(UsageError, match=str(project)) as refused,
        state.locked(project / "below"),
    ):
        pass
    assert "PIECEWORK_STATE_DIR" in refused.value.next_step


def test_what_goes_wrong_under_the_lock_is_told_as_it_is(project: Path) -> None:
    with pytest.raises(FileNotFoundError), state.locked(project):
        raise FileNotFoundError
