"""The emulator's environment: made once, whole or not at all, under the cache."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.embedded import environment, resources
from piecework.errors import UnreachableError

MAKES_A_PYTHON = """
if [ "$1" = venv ] || [ "$2" = venv ]; then
    for place in "$@"; do :; done
    mkdir -p "$place/bin"
    printf '#!/bin/sh\\n' > "$place/bin/python"
    chmod +x "$place/bin/python"
fi
"""
FAILS = "echo no route to the index; exit 4\n"


class Tools:
    """A `uv` and a Python that only note what they were asked for."""

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

    def ensure(self, said: list[str] | None = None) -> Path:
        say = print if said is None else said.append
        return environment.ensure(say, self.environ, self.python)

    def calls(self) -> list[str]:
        return self.notes.read_text().splitlines()


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=MAKES_A_PYTHON)
    said: list[str] = []
    first = tools.ensure(said)
    assert tools.ensure(said) == first
    assert tools.calls() == ["uv venv", "uv pip"]
    assert len(said) == 1
    assert str(first.parent.parent) in said[0]


def test_without_uv_it_is_made_with_venv_and_pip(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=None, python=MAKES_A_PYTHON)
    assert tools.ensure().exists()
    assert tools.calls() == ["python -m"]


def test_where_uv_fails_pip_is_tried_and_the_reason_told(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=FAILS, python=MAKES_A_PYTHON)
    said: list[str] = []
    assert tools.ensure(said).exists()
    assert "no route to the index" in said[-1]


def test_another_lock_or_python_is_another_environment() -> None:
    assert environment.fingerprint("a\n") != environment.fingerprint("b\n")


def test_of_four_at_once_one_builds_and_the_others_wait(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=MAKES_A_PYTHON + "sleep 0.1\n")
    with ThreadPoolExecutor(4) as pool:
        building = [pool.submit(tools.ensure) for _ in range(4)]
        found = {each.result() for each in building}
    assert len(found) == 1
    assert tools.calls() == ["uv venv", "uv pip"]


def test_a_failed_install_is_told_with_its_last_lines(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=None)
    with pytest.raises(UnreachableError, match="no route to the index") as failed:
        tools.ensure()
    assert failed.value.code == "embedded.environment.install_failed"


def test_a_failed_install_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    broken = Tools(tmp_path / "broken", uv=MAKES_A_PYTHON + '[ "$1" = venv ]\n')
    with pytest.raises(UnreachableError):
        broken.ensure()
    cache = Path(broken.environ["PIECEWORK_CACHE_DIR"])
    assert [path.suffix for path in cache.iterdir()] == [".lock"]
    assert Tools(tmp_path / "whole", uv=MAKES_A_PYTHON).ensure().exists()


def test_an_environment_whose_python_is_gone_is_made_again(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "bin", uv=MAKES_A_PYTHON)
    python = tools.ensure()
    python.unlink()
    python.symlink_to(tmp_path / "upgraded-away")
    assert tools.ensure().exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PIECEWORK_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/piecework"),
    ],
)
def test_the_cache_is_where_the_user_says(
    environ: dict[str, str], expected: str
) -> None:
    assert environment.cache_folder(environ) == Path(expected)


def test_the_version_in_the_code_is_the_version_in_the_lock() -> None:
    assert f"ministack=={environment.VERSION} " in resources.lock()
