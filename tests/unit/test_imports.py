"""What a program loads by an import: names of modules, because seconds vary."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import piecework
from piecework.errors import UsageError
from piecework.errors.extras import EXTRAS
from piecework_orchestrator.submit.intake import pdf, word
from piecework_orchestrator.submit.intake.limits import IntakeLimits

#: Libraries that take a tenth of a second or more, each with what it loads.
SLOW = {
    "aioboto3",
    "aiobotocore",
    "aiohttp",
    "boto3",
    "botocore.auth",
    "botocore.session",
    "docx",
    "jinja2",
    "pyarrow",
    "pydantic",
    "pypdfium2",
    "rich",
    "structlog",
    "typer",
    "yaml",
}
#: A module of a user: pydantic is what it imports itself.
USERS_MODULE = """\
from pydantic import BaseModel
from piecework import Context, Dependency, Document, Pipeline, Stage

class Paragraph(BaseModel):
    text: str

counter = Dependency("word-counter")

async def count(ctx: Context[Paragraph]) -> int:
    return len(ctx.payload.text)

pipeline = Pipeline("words", payload=Paragraph, stages=[Stage(count)])
"""


def loaded(program: str) -> set[str]:
    """Run a program in a process of its own; return the slow libraries it loads."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return SLOW & set(done.stdout.split())


@pytest.mark.parametrize(
    ("program", "libraries"),
    [
        ("import piecework", set()),
        ("import piecework.settings", set()),
        ("import piecework.client", set()),
        ("from piecework.client import Client", {"pydantic"}),
        ("from piecework import Dependency, Pipeline, Stage, TransientError", set()),
        (USERS_MODULE, {"pydantic"}),
    ],
)
def test_an_import_loads_only_what_it_needs(program: str, libraries: set[str]) -> None:
    assert libraries == loaded(program)


#: A command that ends, beside what it has loaded.
COMMAND = """\
import sys
from contextlib import suppress
from piecework_orchestrator.cli import main
sys.argv = ['piecework', *{words}]
with suppress(SystemExit):
    main()
"""


@pytest.mark.parametrize(
    ("words", "libraries"), [(["--version"], set()), (["--help"], {"typer"})]
)
def test_a_command_that_says_only_what_is_installed_loads_nothing_else(
    words: list[str], libraries: set[str]
) -> None:
    assert libraries == loaded(COMMAND.format(words=words))


def test_every_public_name_is_found_where_its_type_is() -> None:
    tree = ast.parse(Path(piecework.__file__).read_text("utf-8"))
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("piecework.")
        for alias in node.names
    }

    assert typed == piecework._MODULES
    assert sorted(typed) == sorted(piecework.__all__)
    assert [] == [name for name in typed if getattr(piecework, name) is None]
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = piecework.Nothing  # type: ignore[attr-defined]


#: What the extras bring, as a program finds them that is installed without.
WITHOUT_EXTRAS = """\
import sys
from piecework.errors.extras import EXTRAS
sys.modules |= dict.fromkeys(EXTRAS)
"""


def without_extras(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + program],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program_and_a_worker_need_no_extra() -> None:
    done = without_extras(
        "import piecework, piecework.client, piecework.standalone, piecework.testing\n"
        "from piecework_worker.__main__ import main\n"
        "[getattr(piecework, name) for name in piecework.__all__]\n"
        "sys.argv = ['piecework-worker', '--version']\n"
        "main()"
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_a_run_in_a_program_needs_no_extra() -> None:
    done = without_extras(
        "import piecework\n"
        "from pydantic import BaseModel\n"
        "class Row(BaseModel):\n"
        "    n: int\n"
        "@piecework.pipeline\n"
        "async def doubled(row: Row) -> int:\n"
        "    return 2 * row.n\n"
        "ran = piecework.run(doubled, [Row(n=1), Row(n=2)], progress=True).wait()\n"
        "print(ran.values)"
    )

    assert (0, "[2, 4]\n") == (done.returncode, done.stdout), done.stderr


@pytest.mark.parametrize("words", ["jobs show j", "--help"])
def test_the_command_line_names_the_extra_that_it_needs(words: str) -> None:
    done = without_extras(
        "from piecework_orchestrator.cli import main\n"
        f"sys.argv = ['piecework', *{words.split()}]\n"
        "main()"
    )

    assert 2 == done.returncode
    assert "error cli.extra.missing: The package typer" in done.stderr
    assert "pip install '.[cli]'" in done.stderr


@pytest.mark.parametrize("module", ["pdf", "word"])
def test_a_document_names_the_extra_that_it_needs(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(word, "check_container", lambda *_: None)

    with pytest.raises(UsageError) as caught:
        {"pdf": pdf, "word": word}[module].read(b"", "a document", IntakeLimits())

    assert "cli.extra.missing" == caught.value.code
    assert ".[documents]" in caught.value.next_step
