"""Write a file completely or not at all; until then the old file stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from piecework.errors import UsageError


@contextmanager
def whole_file(path: Path, *, follow_links: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces the old one at the end; write to a pipe directly.

    Without `follow_links` a link under this name is replaced. Use it for a name that
    the user did not choose.

    Raises:
        UsageError: `cli.usage.invalid`: the path cannot be written.
    """
    with naming_path(path):
        parent = resolve_path(path.parent)
        target = resolve_path(path) if follow_links else parent / path.name
        linked = target.is_symlink()
        replaces = linked or target.is_file() or not target.exists()
        opened = open_replacement if replaces else open_directly
        with opened(target) as file:
            yield file


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    with naming_path(path):
        resolve_path(path).mkdir(parents=True, exist_ok=True)


def resolve_path(path: Path) -> Path:
    """Resolve links, so that the target of a link is replaced, not the link."""
    try:
        return path.resolve()
    except (ValueError, RuntimeError) as error:
        message = f"{str(path)!r} cannot be written: it is not a path."
        raise UsageError(message, next_step="Use another path.") from error


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Convert an OSError to an error that names the path.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{str(path)!r} cannot be written: {error.strerror}."
        raise UsageError(message, next_step="Use another path.") from error


@contextmanager
def open_directly(target: Path) -> Iterator[BinaryIO]:
    """Write to a pipe or a device."""
    with target.open("wb") as file:
        yield file


@contextmanager
def open_replacement(target: Path) -> Iterator[BinaryIO]:
    """Write a file under a temporary name, and rename it when it is complete."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:  # never through a link under this name
            yield file
        if target.exists() and not target.is_symlink():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
