"""Split blocks of bytes into lines, with at most one line in memory."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.errors import UsageError


class LineSplitter:
    """Split blocks of bytes at line feeds, wherever the blocks are cut.

    `number` counts lines from one as an editor does, including blank lines.
    """

    def __init__(self, origin: str, limit: int) -> None:
        self._origin = origin
        self._limit = limit
        self._pieces: list[bytes] = []
        self._length = 0
        self.number = 0

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the lines that end within the block."""
        *ended, rest = block.split(b"\n")
        for piece in ended:
            self._append(piece)
            yield self._take_line()
        self._append(rest)

    def close(self) -> Iterator[bytes]:
        """Yield the last line if it has no line feed."""
        if self._length:
            yield self._take_line()

    def _append(self, piece: bytes) -> None:
        # A list of pieces, because joining at each block is quadratic in a long line.
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            raise UsageError(
                f"Line {self.number + 1} of {self._origin} is longer than "
                f"{self._limit:,} bytes.",
                code="input.manifest.too_long_line",
                next_step="Write one chunk per line, and large data as a reference.",
                origin=self._origin,
                line=self.number + 1,
            )

    def _take_line(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        self.number += 1
        return line
