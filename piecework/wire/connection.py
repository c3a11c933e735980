"""One connection: a request, its answer, and only then the next.

Whatever comes that was not asked for, and every request that nobody waits for any
more, ends the connection: no answer can be taken for that of another request.
"""

from __future__ import annotations

import asyncio
from typing import cast

from piecework.wire.answer import Answer, MalformedError, read


class Connection(asyncio.Protocol):
    """A connection.

    Attributes:
        free_since: When its last answer came, by the loop's clock.
        gone: Done once the connection is closed.
    """

    def __init__(self, read_timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_timeout = read_timeout
        self._waiting: asyncio.Future[Answer] | None = None
        self._received = b""
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.free_since = 0.0
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            TimeoutError: Nothing came for too long.
            ConnectionError: It was closed before the answer was there.
            MalformedError: What came is no answer.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionAbortedError
        self._waiting = self._loop.create_future()
        self._due = self._loop.time() + self._read_timeout
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look_for_answer)
        transport.write(request)
        try:
            answer = await self._waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting, self._received = None, b""
        if answer.last:
            self.close()
        self.free_since = self._loop.time()
        return answer

    def close(self) -> None:
        """Close it at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # ── told by the loop ────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand an answer over once all of it is there."""
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        self._due = self._loop.time() + self._read_timeout
        self._received = self._received + data if self._received else data
        self._look(ended=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits learns that nothing more will come."""
        if self._waiting is not None and not self._waiting.done():
            if exc is None:
                self._look(ended=True)
            if not self._waiting.done():
                self._waiting.set_exception(exc or ConnectionAbortedError())
        self.close()
        self._transport = None
        if not self.gone.done():
            self.gone.set_result(None)

    def _look(self, *, ended: bool) -> None:
        waiting = cast("asyncio.Future[Answer]", self._waiting)
        try:
            answer = read(self._received, ended=ended)
        except MalformedError as error:
            waiting.set_exception(error)
            return
        if answer is not None:
            waiting.set_result(answer)

    def _look_for_answer(self) -> None:
        """Give up when nothing has come for too long.

        One timer for many requests: to set one and cancel it for each costs more.
        """
        self._timer = None
        if self._waiting is None or self._waiting.done():
            return
        if self._loop.time() >= self._due:
            self._waiting.set_exception(TimeoutError())
        else:
            self._timer = self._loop.call_at(self._due, self._look_for_answer)
