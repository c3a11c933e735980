"""The channel between a worker and its child: messages with a length prefix."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from workers.isolation.messages import MESSAGE, Message

#: Bytes of the length prefix.
LENGTH = 4


@dataclass(slots=True)
class Channel:
    """One end of the channel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def closed(self) -> bool:
        """Whether either end is closed."""
        return self.writer.is_closing() or self.reader.at_eof()

    def send(self, message: Message) -> None:
        """Send a message; on a closed channel do nothing."""
        if not self.writer.is_closing():
            content = MESSAGE.dump_json(message)
            self.writer.write(len(content).to_bytes(LENGTH, "big") + content)

    async def receive(self) -> Message | None:
        """Return the next message; None: the channel is closed."""
        try:
            length = await self.reader.readexactly(LENGTH)
            content = await self.reader.readexactly(int.from_bytes(length, "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return MESSAGE.validate_json(content)

    def close(self) -> None:
        """Close the channel."""
        self.writer.transport.abort()


async def open_channel(end: socket.socket) -> Channel:
    """Open the channel on one end of a socket pair."""
    end.setblocking(False)  # noqa: FBT003 -- the name of the socket's own method
    return Channel(*await asyncio.open_unix_connection(sock=end))
