"""The code version of a pipeline: what tells it, and what changes it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from piecework import Pipeline
from piecework.declared import as_pipeline
from piecework.saga.code_version import code_version
from piecework.settings import Settings

IMAGE = f"sha256:{'1f0c' * 16}"
APP = """
from pydantic import BaseModel
from piecework import pipeline
from {module} import TEXT

class Text(BaseModel):
    text: str

@pipeline
async def ask(text: Text) -> str:
    return TEXT + text.text
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of modules, which leave the process with the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"own_app", "own_prompts", "own_other"}:
            del sys.modules[name]


def load(folder: Path, module: str = "own_app", **modules: str) -> Pipeline:
    """Write modules, and import the pipeline of one of them anew."""
    for name, text in {"own_app": APP.format(module="own_prompts"), **modules}.items():
        path = folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name in list(sys.modules):
        if name.partition(".")[0] in {"own_app", "own_prompts"}:
            del sys.modules[name]
    importlib.invalidate_caches()
    sys.dont_write_bytecode = True
    return as_pipeline(importlib.import_module(module).ask)


def version(pipeline: Pipeline, image: str = "", **settings: str) -> str:
    return code_version(pipeline, Settings(**settings), image)  # type: ignore[arg-type]


def git(folder: Path, *arguments: str) -> str:
    """Run git without the settings of this machine."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments],  # noqa: S607 -- the user's git
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


def test_the_setting_comes_before_the_image_and_the_image_before_the_files(
    folder: Path,
) -> None:
    ask = load(folder, own_prompts="TEXT = 'one'")

    assert "v7" == version(ask, IMAGE, code_version="v7")
    assert "sha256:1f0c1f0c1f0c" == version(ask, IMAGE)
    assert version(ask, "latest").startswith("files:")


def test_files_that_the_pipeline_imports_tell_its_version(folder: Path) -> None:
    """What a process has loaded beside them does not count: a submit has more."""
    first = version(load(folder, own_prompts="TEXT = 'one'"))
    load(folder, own_prompts="TEXT = 'one'", own_other="X = 1")
    importlib.import_module("own_other")
    again = version(load(folder, own_prompts="TEXT = 'one'", own_other="X = 2"))
    prompt = version(load(folder, own_prompts="TEXT = 'two'"))

    assert first == again
    assert first != prompt
    assert len("files:") + 12 == len(first)


def test_each_form_of_an_import_is_followed(folder: Path) -> None:
    forms = (
        "from . import texts",
        "from .texts import TEXT as _",
        "from own_app import texts",
        "import own_app.texts",
        "def later():\n    import own_app.texts",
    )
    for form in forms:
        package = {
            "own_app.__init__": "",
            "own_app.ask": f"{APP.format(module='own_prompts')}\n{form}",
            "own_prompts": "TEXT = 'one'",
        }
        found = {
            version(load(folder, "own_app.ask", **package, **{"own_app.texts": text}))
            for text in ("TEXT = 1", "TEXT = 2")
        }
        assert 2 == len(found), form


def test_of_an_installed_package_only_its_own_files_count(folder: Path) -> None:
    place = folder / "site-packages"
    sys.path.insert(0, str(place))
    try:
        place.mkdir()
        package = {
            "own_app.ask": APP.format(module="own_prompts"),
            "own_app.__init__": "",
        }
        first = version(load(place, "own_app.ask", **package, own_prompts="TEXT = 1"))
        other = version(load(place, "own_app.ask", **package, own_prompts="TEXT = 2"))
        package["own_app.__init__"] = "X = 1"
        own = version(load(place, "own_app.ask", **package, own_prompts="TEXT = 2"))
    finally:
        sys.path.remove(str(place))

    assert first == other != own


def test_a_checkout_tells_its_revision_and_that_it_is_dirty(folder: Path) -> None:
    load(folder, own_prompts="TEXT = 'one'")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    revision = git(folder, "rev-parse", "HEAD")[:12]

    clean = version(load(folder, own_prompts="TEXT = 'one'"))
    dirty = version(load(folder, own_prompts="TEXT = 'two'"))
    other = version(load(folder, own_prompts="TEXT = 'six'"))

    assert clean == f"git:{revision}"
    assert dirty.startswith(f"git:{revision}-dirty-")
    assert other.startswith(f"git:{revision}-dirty-")
    assert dirty != other


def test_a_changed_prompt_that_is_not_python_is_another_dirty_version(
    folder: Path,
) -> None:
    (folder / "prompt.txt").write_text("one")
    load(folder, own_prompts="TEXT = 'one'")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    found = set[str]()
    for text in ("one", "two", "six"):
        (folder / "prompt.txt").write_text(text)
        found.add(version(load(folder, own_prompts="TEXT = 'one'")))

    assert 3 == len(found)
    assert 2 == sum("-dirty-" in each for each in found)


def test_a_file_that_git_does_not_track_has_no_revision(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "one")

    ask = load(folder, own_prompts="TEXT = 'one'")

    assert version(ask).startswith("files:")


@pytest.mark.parametrize("text", ["v 7", "v7\n", "a" * 65, "é"])
def test_a_version_is_one_short_word(text: str) -> None:
    with pytest.raises(ValueError, match="code_version"):
        Settings(code_version=text)
