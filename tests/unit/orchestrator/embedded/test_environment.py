"""The emulator's environment: installed once, completely or not at all."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from piecework.errors import UnreachableError
from piecework_orchestrator.embedded import environment
from piecework_orchestrator.embedded import environment as resources

CREATES_PYTHON = """
if [ "$1" = venv ] || [ "$2" = venv ]; then
    for place in "$@"; do :; done
    mkdir -p "$place/bin"
    printf '#!/bin/sh\\n' > "$place/bin/python"
    chmod +x "$place/bin/python"
fi
"""
FAILS = "echo no route to the index; exit 4\n"


class Tools:
    """A fake `uv` and a fake Python that record their calls."""

    def __init__(self, folder: Path, uv: str | None, python: str = FAILS) -> None:
        folder.mkdir()
        self.notes = folder / "calls"
        if uv is not None:
            self._write(folder / "uv", uv)
        self.python = str(self._write(folder / "python", python))
        self.environ: Mapping[str, str] = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "PIECEWORK_CACHE_DIR": str(folder.parent / "cache"),
        }

    def _write(self, path: Path, script: str) -> Path:
        path.write_text(f'#!/bin/sh\necho "{path.name} $1" >> "{self.notes}"\n{script}')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def ensure_environment(self, reports: list[str] | None = None) -> Path:
        report = print if reports is None else reports.append
        return environment.ensure_environment(report, self.environ, self.python)

    def calls(self) -> list[str]:
        return self.notes.read_text().splitlines()


def test_an_environment_is_installed_once(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=CREATES_PYTHON)
    reports: list[str] = []
    first = tools.ensure_environment(reports)
    assert tools.ensure_environment(reports) == first
    assert tools.calls() == ["uv venv", "uv pip"]
    assert len(reports) == 1
    assert str(first.parent.parent) in reports[0]


def test_without_uv_venv_and_pip_are_used(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=None, python=CREATES_PYTHON)
    assert tools.ensure_environment().exists()
    assert tools.calls() == ["python -m"]


def test_if_uv_fails_pip_is_used_and_the_reason_is_reported(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=FAILS, python=CREATES_PYTHON)
    reports: list[str] = []
    assert tools.ensure_environment(reports).exists()
    assert any("no route to the index" in report for report in reports)


def test_another_lock_or_python_is_another_environment() -> None:
    assert environment.fingerprint("a\n") != environment.fingerprint("b\n")


def test_one_of_four_concurrent_processes_installs_and_the_others_wait(
    tmp_path: Path,
) -> None:
    tools = Tools(tmp_path / "bin", uv=CREATES_PYTHON + "sleep 0.1\n")
    with ThreadPoolExecutor(4) as pool:
        building = [pool.submit(tools.ensure_environment) for _ in range(4)]
        found = {each.result() for each in building}
    assert len(found) == 1
    assert tools.calls() == ["uv venv", "uv pip"]


def test_a_failed_install_reports_its_last_lines(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=None)
    with pytest.raises(UnreachableError, match="no route to the index") as failed:
        tools.ensure_environment()
    assert failed.value.code == "embedded.environment.install_failed"


def test_a_failed_install_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    broken = Tools(tmp_path / "broken", uv=CREATES_PYTHON + '[ "$1" = venv ]\n')
    with pytest.raises(UnreachableError):
        broken.ensure_environment()
    cache = Path(broken.environ["PIECEWORK_CACHE_DIR"])
    assert [path.suffix for path in cache.iterdir()] == [".lock"]
    assert Tools(tmp_path / "whole", uv=CREATES_PYTHON).ensure_environment().exists()


def test_an_environment_without_its_python_is_installed_again(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=CREATES_PYTHON)
    python = tools.ensure_environment()
    python.unlink()
    python.symlink_to(tmp_path / "upgraded-away")
    assert tools.ensure_environment().exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PIECEWORK_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/piecework"),
    ],
)
def test_the_cache_folder_follows_the_environment_variables(
    environ: dict[str, str], expected: str
) -> None:
    assert environment.cache_folder(environ) == Path(expected)


def test_the_version_in_the_code_is_the_version_in_the_lock() -> None:
    assert f"ministack=={environment.VERSION} " in resources.read_lock_file()


def test_a_cache_folder_that_cannot_be_made_is_an_error_of_the_user(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    environ = {"PIECEWORK_CACHE_DIR": str(tmp_path / "file" / "cache")}
    with pytest.raises(UnreachableError) as failed:
        environment.ensure_environment(report=lambda _: None, environ=environ)
    assert "PIECEWORK_CACHE_DIR" in failed.value.next_step
