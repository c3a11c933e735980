"""Lines out of blocks, however the blocks were cut, holding one line at most."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.errors import UsageError


class LineSplitter:
    """Joins blocks of bytes and cuts them at line feeds.

    Lines are counted from one as an editor counts them, blank ones too.
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
            self._hold(piece)
            yield self._line()
        self._hold(rest)

    def close(self) -> Iterator[bytes]:
        """Yield the last line, if it was left without a line feed."""
        if self._length:
            yield self._line()

    def _hold(self, piece: bytes) -> None:
        # Kept in pieces: joining at each block would be quadratic in a long line.
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            raise UsageError(
                f"Line {self.number + 1} of {self._origin} is longer than "
                f"{self._limit:,} bytes.",
                code="input.manifest.too_long_line",
                next_step="Write one chunk a line, and large data as a reference.",
                origin=self._origin,
                line=self.number + 1,
            )

    def _line(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        self.number += 1
        return line
