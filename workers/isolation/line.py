"""The line between a worker and its child: messages, each behind its length."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from workers.isolation.messages import MESSAGE, Message

#: Bytes in which a message's length is written.
LENGTH = 4


@dataclass(slots=True)
class Channel:
    """One end of the line."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def closed(self) -> bool:
        """Whether it is cut, at either end."""
        return self.writer.is_closing() or self.reader.at_eof()

    def send(self, message: Message) -> None:
        """Say something; on a line that is cut, to nobody."""
        if not self.writer.is_closing():
            content = MESSAGE.dump_json(message)
            self.writer.write(len(content).to_bytes(LENGTH, "big") + content)

    async def receive(self) -> Message | None:
        """Return what the other side says next; None: the line is cut."""
        try:
            length = await self.reader.readexactly(LENGTH)
            content = await self.reader.readexactly(int.from_bytes(length, "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return MESSAGE.validate_json(content)

    def close(self) -> None:
        """Let go of the line."""
        self.writer.transport.abort()


async def open_channel(end: socket.socket) -> Channel:
    """Take hold of one end of a pair of sockets."""
    end.setblocking(False)  # noqa: FBT003 -- the name of the socket's own method
    return Channel(*await asyncio.open_unix_connection(sock=end))
