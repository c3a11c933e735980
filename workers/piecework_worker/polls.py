"""Choose the queue that a worker receives from next, and the number of messages.

A receive returns ten messages at most, so a worker of one queue asks for ten. While
receives return ten and there is room for ten more, a second one runs beside the first.
So the round trip to SQS does not limit the throughput.

The queues of a worker share its slots, and take turns. The worker asks each for twice
as many messages as it had last. So the long poll of an empty queue keeps one slot only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from piecework.aws.queue import BATCH
from piecework.runtime import Runtime

#: Receives of one queue in flight at once.
MAX_RECEIVES = 2


@dataclass(slots=True)
class Poll:
    """The receives of one queue.

    Attributes:
        in_flight: Receives that SQS has not answered yet.
        long: Receives among these in which SQS waits for a message.
        found: The messages of the last receive.
        place: When its last receive began, among those of all queues.
    """

    queue: str
    in_flight: int = 0
    long: int = 0
    found: int = 0
    place: int = 0


class Polls:
    """The receives of one worker."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._polls = [Poll(queue) for queue in queues]
        self._places = count(1)

    @property
    def in_flight(self) -> int:
        """Receives that SQS has not answered yet."""
        return sum(poll.in_flight for poll in self._polls)

    @property
    def are_all_long(self) -> bool:
        """Whether SQS waits for a message of each queue."""
        return all(poll.long for poll in self._polls)

    def next(self, room: int) -> Poll | None:
        """Return the queue that waited longest; None: each has its receives in flight.

        `room`: free slots for a further receive of a queue that returned full batches.
        """
        ready = [
            poll
            for poll in self._polls
            if not poll.in_flight
            or (poll.in_flight < MAX_RECEIVES and poll.found == BATCH <= room)
        ]
        return min(ready, key=lambda poll: poll.place, default=None)

    def begin(self, poll: Poll, free: int, wait_s: int) -> int:
        """Count a receive that begins; return the messages that it may return."""
        poll.in_flight += 1
        poll.long += wait_s > 0
        poll.place = next(self._places)
        alone = len(self._polls) == 1
        return min(free, BATCH if alone else max(1, 2 * poll.found), BATCH)

    def end(self, poll: Poll, found: int, wait_s: int) -> None:
        """Count a receive that SQS has answered, or that failed."""
        poll.in_flight -= 1
        poll.long -= wait_s > 0
        poll.found = found

    def wait_s(self, longest_s: int, slots: int) -> int:
        """Return the seconds of a long poll.

        With fewer slots than queues, the queues share the time: each has its turn.
        """
        queues = len(self._polls)
        return longest_s if slots >= queues else max(1, longest_s // queues)


def receive_wait_s(rt: Runtime) -> int:
    """Return the seconds of a long poll; a stop waits for the poll to end.

    On loopback a request costs nothing, and a developer expects Ctrl-C to work soon.
    """
    longest = rt.settings.long_poll_s
    return min(longest, 2) if rt.endpoint.loopback else longest
