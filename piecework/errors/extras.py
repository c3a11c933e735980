"""Name the extra of Piecework that has a missing package.

A program that processes chunks needs no extra. The command line, documents and tables
need packages that other programs may not want beside theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from piecework.errors import UsageError

#: The extra of each package that is imported only where it is used.
EXTRAS: Final = {
    "agents": "openai-agents",
    "docx": "documents",
    "genai_prices": "prices",
    "jinja2": "cli",
    "langchain_core": "langgraph",
    "opentelemetry": "otel",
    "prometheus_client": "prometheus",
    "pydantic_ai": "pydantic-ai",
    "pyarrow": "data",
    "pypdfium2": "documents",
    "rich": "cli",
    "starlette": "ui",
    "typer": "cli",
    "uvicorn": "ui",
    "yaml": "cli",
}


@contextmanager
def naming_extras() -> Iterator[None]:
    """Name the extra if an import inside finds no package.

    The working directory is not searched. A file `docx.py` beside documents must not
    run in place of a package that is not installed.

    Raises:
        UsageError: `cli.extra.missing`.
    """
    searched = sys.path[:]
    here = {"", str(Path.cwd())}
    sys.path[:] = [folder for folder in searched if folder not in here]
    try:
        yield
    except ModuleNotFoundError as error:
        found = missing_extra(error)
        if found is None:
            raise
        raise found from error
    finally:
        sys.path[:] = searched


def missing_extra(error: BaseException) -> UsageError | None:
    """Return the error that names the extra; None if no extra has the package."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return UsageError(
        f"The package {package} is not installed.",
        code="cli.extra.missing",
        next_step=f"In the folder of Piecework's source: pip install '.[{extra}]'.",
    )
