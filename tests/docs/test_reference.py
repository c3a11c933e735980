"""The pages of the reference are generated from the code, and are fresh."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import fields
from types import ModuleType

import pytest

from piecework.errors import PieceworkError
from piecework.settings import Settings
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs/reference"


def generator() -> ModuleType:
    """Import the program that writes the pages; it is in no package."""
    sys.path.append(str(FOLDER))  # of the modules beside it
    spec = importlib.util.spec_from_file_location("generate", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


GENERATE = generator()


def test_every_setting_is_on_the_page_once_with_its_default() -> None:
    page = (FOLDER / "settings.md").read_text("utf-8")
    assert page == GENERATE.settings_page()
    heads = [li.split("|")[1] for li in page.splitlines() if li.startswith("| `")]
    named = re.findall(r"`PIECEWORK_(\w+)`", "".join(heads))

    assert [each.name.upper() for each in fields(Settings)] == named


def test_a_setting_without_a_comment_is_refused() -> None:
    source = "class Settings:\n    #: Described.\n    app: str\n\n    env: str\n"

    with pytest.raises(ValueError, match="env has no comment"):
        GENERATE.described(source)


def test_every_exit_code_of_an_error_is_on_the_page() -> None:
    page = (FOLDER / "command-line.md").read_text("utf-8")
    listed = set(map(int, re.findall(r"^\| (\d+) \|", page, re.MULTILINE)))
    codes = {
        error.exit_code
        for error in known(PieceworkError)
        if isinstance(error.exit_code, int)
    }

    assert {0, 4, 5, 8, 9, 130} <= listed
    assert codes <= listed


def known(base: type[PieceworkError]) -> set[type[PieceworkError]]:
    """Return an error and all that are derived from it."""
    return {base}.union(*(known(error) for error in base.__subclasses__()))
