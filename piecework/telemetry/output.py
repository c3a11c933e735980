"""Write to a stream that may be closed, full or gone: a log stops no work.

What cannot be written is dropped. The next line is tried again, because a disk may have
space by then.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Final, TextIO, cast

#: What a write raises on a stream that is closed, on a full disk, or without a reader.
FAILURES: Final = (OSError, ValueError)
#: Bytes that CloudWatch adds to each line that it takes in.
LINE_BYTES: Final = 26


class TolerantStream:
    """A text stream, or None, whose writes raise nothing.

    Attributes:
        billed: The bytes of all writes, as CloudWatch bills lines of a log.
    """

    def __init__(self, stream: TextIO | None) -> None:
        """Write to a stream; without one, to nothing."""
        self._stream = stream
        self.billed = 0

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        self.billed += len(text) + LINE_BYTES
        if self._stream is not None:
            try:
                self._stream.write(text)
            except FAILURES:
                return 0
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or leave it there."""
        if self._stream is not None:
            with suppress(*FAILURES):
                self._stream.flush()

    def isatty(self) -> bool:
        """Return whether a person reads the stream."""
        try:
            return self._stream is not None and self._stream.isatty()
        except FAILURES:
            return False

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self._stream, name)


def tolerant(stream: TextIO | None) -> TextIO:
    """Return a stream whose writes raise nothing."""
    found: object = stream
    wrapped = found if isinstance(found, TolerantStream) else TolerantStream(stream)
    return cast("TextIO", wrapped)


def billed_bytes() -> int:
    """Return the bytes that this process wrote to its outputs, as they are billed."""
    return sum(getattr(stream, "billed", 0) for stream in (sys.stdout, sys.stderr))


def tolerate_output() -> None:
    """Let no `print` of this process raise: a worker's output is a log."""
    sys.stdout, sys.stderr = tolerant(sys.stdout), tolerant(sys.stderr)
