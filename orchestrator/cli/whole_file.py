"""A file that is there once it is whole; until then what was there before stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from piecework.errors import UsageError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write to; what is none, a pipe say, is written to as it is.

    Raises:
        UsageError: `cli.usage.invalid`: it cannot be written.
    """
    with refusing(path):
        place = place_of(path)
        opened = beside if place.is_file() or not place.exists() else straight
        with opened(place) as file:
            yield file


def make_folder(path: Path) -> None:
    """Make a folder for files, and those above it.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    with refusing(path):
        place_of(path).mkdir(parents=True, exist_ok=True)


def place_of(path: Path) -> Path:
    """Return where a path leads: what a link names is replaced, not the link."""
    try:
        return path.resolve()
    except (ValueError, RuntimeError) as error:
        message = f"{str(path)!r} cannot be written: it is no path."
        raise UsageError(message, next_step="Name another.") from error


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Say of what the system refuses which path it was about.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{str(path)!r} cannot be written: {error.strerror}."
        raise UsageError(message, next_step="Name another.") from error


@contextmanager
def straight(place: Path) -> Iterator[BinaryIO]:
    """Write to what is no file."""
    with place.open("wb") as file:
        yield file


@contextmanager
def beside(place: Path) -> Iterator[BinaryIO]:
    """Write a file under another name, and give it its own once it is whole."""
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        if place.exists():
            shutil.copymode(place, part)
        part.replace(place)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
