"""The events of a stream of results, and the position at which a stream resumes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Self

from fastapi.sse import ServerSentEvent

from piecework import UsageError
from piecework.client import Done, Failed

#: The id of the last event of a job that has ended.
END = "end"
#: Chunks beyond the first gap that an id names. If a job has more of them, a stream
#: that resumes sends some chunks again. The client knows them by their number.
MAX_NAMED = 100
#: An id: the generation, the first gap, and the chunks beyond it.
ID = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.((?:[0-9]{1,9}(?:,[0-9]{1,9})*)?)")


@dataclass(frozen=True, slots=True)
class Seen:
    """The chunks that a client has received; its text is the id of an event.

    The server keeps nothing about a stream, so any process can resume it.

    Attributes:
        gen: The generation of the job. A redrive starts a new one, and a new stream.
        below: The client has all chunks below this number.
        others: The first chunks that the client has beyond the first gap.
    """

    gen: int
    below: int = 0
    others: frozenset[int] = frozenset()

    @classmethod
    def after(cls, last_event_id: str, gen: int) -> Self:
        """Return the position of an event; one of an earlier generation: the start.

        Raises:
            UsageError: `cli.usage.invalid`: it is not the id of an event.
        """
        if not last_event_id:
            return cls(gen)
        if (found := ID.fullmatch(last_event_id)) is None:
            message = f"{last_event_id[:80]!r} is not the id of an event."
            step = (
                "Leave Last-Event-ID out: then the stream begins with the first chunk."
            )
            raise UsageError(message, next_step=step)
        before, below, others = found.groups()
        if int(before) != gen:
            return cls(gen)
        numbers = frozenset(map(int, filter(None, others.split(","))))
        return cls(gen, int(below), numbers)

    def plus(self, chunk: int) -> Self:
        """Return the position after one more chunk."""
        below, others = self.below, self.others | {chunk}
        while below in others:
            others -= {below}
            below += 1
        return type(self)(self.gen, below, frozenset(nsmallest(MAX_NAMED, others)))

    def __contains__(self, chunk: object) -> bool:
        return chunk in self.others or (isinstance(chunk, int) and chunk < self.below)

    def __str__(self) -> str:
        return f"{self.gen}.{self.below}.{','.join(map(str, sorted(self.others)))}"


def event_of(item: Done[Any] | Failed, seen: Seen) -> ServerSentEvent:
    """Return the event of a chunk that has ended."""
    data: dict[str, Any] = {"chunk": item.chunk, "label": item.label}
    match item:
        case Done():
            data["value"] = item.value
        case Failed():
            data["error"] = {"code": item.error.code, "message": item.error.message}
    kind = "done" if isinstance(item, Done) else "failed"
    return ServerSentEvent(event=kind, id=str(seen), data=data)
