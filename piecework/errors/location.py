"""Say where an exception was raised: in which line of the user's code.

Only names and numbers are kept: types, files, lines, functions. Locals, lines of code
and messages may contain the chunk's data.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType
from typing import Final

from piecework.errors.causes import chain

#: Frames of each exception in a traceback: the innermost.
FRAMES: Final = 12
#: The packages whose frames lie between the worker and the user's function.
_OURS: Final = frozenset(
    {"piecework", "piecework_orchestrator", "piecework_simulation", "piecework_worker"}
)
_INSTALLED: Final = frozenset({"dist-packages", "site-packages"})


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a traceback, without piecework's own."""

    module: str
    file: str
    line: int
    function: str

    @classmethod
    def of(cls, frame: FrameType, line: int) -> Frame:
        """Read a frame; nothing keeps its locals alive."""
        name, code = str(frame.f_globals.get("__name__", "")), frame.f_code
        return cls(name, code.co_filename, line, code.co_name)

    @property
    def package(self) -> str:
        """The first part of its module's name."""
        return self.module.partition(".")[0]

    @property
    def is_installed(self) -> bool:
        """Whether it is of an installed library, or of Python itself."""
        parts = PurePath(self.file).parts
        return self.package in sys.stdlib_module_names or bool(_INSTALLED & {*parts})

    def __str__(self) -> str:
        """Return the path below the folder of imports, the line and the function."""
        path = PurePath(self.file)
        depth = self.module.count(".") + (1 if path.stem != "__init__" else 2)
        return f"{'/'.join(path.parts[-depth:])}:{self.line} in {self.function}"


def frames_of(error: BaseException) -> list[Frame]:
    """Return the frames of an exception outside piecework, outermost first."""
    frames = (Frame.of(*each) for each in traceback.walk_tb(error.__traceback__))
    return [frame for frame in frames if frame.package not in _OURS]


def location_of(error: BaseException) -> str:
    """Return where the user's code raised an exception: `shop.py:41 in price`.

    An exception that was raised between piecework's frames, such as a timeout, has the
    location of its cause. Empty: no frame of the chain is the user's.
    """
    found = (users_frame(frames_of(each)) for each in chain(error))
    return next((str(frame) for frame in found if frame is not None), "")


def raised_text(error: BaseException) -> str:
    """Return that a user's function raised: `raised KeyError at shop.py:41 in price`.

    The text of the exception may quote the chunk's data.
    """
    name, location = type(error).__name__, location_of(error)
    return f"raised {name} at {location}" if location else f"raised {name}"


def users_frame(frames: list[Frame]) -> Frame | None:
    """Return the innermost frame of the user's code.

    The first frame outside Python is the user's function. Its package is the user's,
    too, if it is installed beside the libraries.
    """
    first = next((f for f in frames if f.package not in sys.stdlib_module_names), None)
    if first is None:
        return None
    users = (
        frame
        for frame in reversed(frames)
        if frame.package == first.package or not frame.is_installed
    )
    return next(users)


def traceback_of(error: BaseException) -> str:
    """Return types and frames of an exception, and of those that it followed."""
    lines: list[str] = []
    before: BaseException | None = None
    for each in chain(error):
        name = type(each).__qualname__
        if before is None:
            lines.append(name)
        else:
            how = "caused by" if before.__cause__ is each else "during the handling of"
            lines.append(f"{how} {name}")
        lines += [f"  {frame}" for frame in frames_of(each)[-FRAMES:]]
        before = each
    return "\n".join(lines)
