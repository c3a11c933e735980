"""Model the body of an object, with aiobotocore's methods."""

from __future__ import annotations

from collections.abc import AsyncIterator


class Response:
    """The open body, which is read as a whole."""

    def __init__(self, content: bytes) -> None:
        self._rest = memoryview(content)

    async def read(self) -> bytes:
        """Return the remaining bytes."""
        return self.take(len(self._rest))

    @property
    def rest(self) -> bytes:
        """The remaining bytes, without consuming them."""
        return bytes(self._rest)

    def take(self, most: int) -> bytes:
        """Return the next bytes."""
        block, self._rest = self._rest[:most], self._rest[most:]
        return bytes(block)


class Body:
    """Bytes that are read once, from their beginning."""

    def __init__(self, content: bytes) -> None:
        self._response = Response(content)

    async def __aenter__(self) -> Response:
        return self._response

    async def __aexit__(self, *_: object) -> None:
        self._response = Response(b"")

    @property
    def content(self) -> bytes:
        """The remaining bytes, for a server that sends them."""
        return self._response.rest

    async def read(self, amt: int | None = None) -> bytes:
        """Return the next bytes, or all remaining ones."""
        whole = amt is None or amt < 0
        return await self._response.read() if whole else self._response.take(amt or 0)

    async def iter_lines(
        self, chunk_size: int = 1024, *, keepends: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the lines that are left, split where `bytes.splitlines` does."""
        pending = b""
        while block := await self.read(chunk_size):
            *lines, pending = (pending + block).splitlines(keepends=True)
            for line in lines:
                yield line if keepends else line.rstrip(b"\r\n")
        for line in pending.splitlines(keepends=keepends):
            yield line
