"""Send, receive, hide, delete and dead-letter messages.

Where AWS leaves the result open (an old receipt handle), a random draw decides. Where a
fault is possible (a duplicate, a loss, a redelivery), `chaos` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, Final

from simulation.cloud import sqs_checks
from simulation.cloud.chaos import Chaos
from simulation.cloud.sqs_messages import MessageQueue, Stored

#: Seconds that a message may be late by, or stay away that was deleted.
LATE_S: Final = 20.0
AWAY_S: Final = 60.0


@dataclass(slots=True)
class Deliveries:
    """Moves messages through the queues of an account."""

    now: Callable[[], float]
    rng: Random
    chaos: Chaos
    _serials: Iterator[int] = field(default_factory=lambda: count(1))
    _arrived: dict[str, None] = field(default_factory=dict)

    def arrivals(self) -> Iterable[str]:
        """Return the queues whose next message became earlier since the last call."""
        arrived, self._arrived = self._arrived, {}
        return arrived

    def send(self, queue: MessageQueue, body: str, delay_s: float) -> Stored:
        """Store a sent message."""
        if self.chaos.fires("sqs.delay"):
            delay_s += self.rng.uniform(0, LATE_S)
        now, serial = self.now(), next(self._serials)
        message_id = f"{serial:08x}-0000-4000-8000-000000000000"
        message = Stored(serial, message_id, body, now, now + delay_s)
        if self.chaos.fires("sqs.lost"):
            return message
        self._add(queue, message)
        if self.chaos.fires("sqs.duplicate"):
            self._copy(queue, message)
        return message

    def hand_out(self, queue: MessageQueue, most: int, hide_s: float) -> list[Stored]:
        """Receive visible messages; dead-letter those that were received too often."""
        now = self.now()
        queue.expire(now)
        visible, taken = queue.appear(now), list[Stored]()
        if visible and self.chaos.fires("sqs.empty"):
            return []
        while visible and len(taken) < most:
            any_one = visible > 1 and self.chaos.fires("sqs.reorder")
            message = queue.take(self.rng.randrange(visible) if any_one else 0)
            visible -= 1
            if queue.dead is not None and len(message.receives) >= queue.most_receives:
                self._bury(queue, queue.dead, message)
                continue
            message.receives.append(now)
            if self.chaos.fires("sqs.duplicate"):
                self._copy(queue, message)
            queue.hide(message, now + hide_s)
            taken.append(message)
        return taken

    def delete(self, queue: MessageQueue, handle: str) -> tuple[str, float] | None:
        """Delete a message; return its body and its receive time, if it was deleted."""
        message, received = self._held(queue, handle)
        if message is None or not self._reaches(message, received):
            return None
        queue.remove(message)
        if not message.returned and self.chaos.fires("sqs.undelete"):
            back = self.now() + self.rng.uniform(0, AWAY_S)
            self._copy(queue, message, visible_at=back, returned=True)
        return message.body, message.receives[received - 1]

    def hide(self, queue: MessageQueue, handle: str, seconds: float) -> None:
        """Hide a message for some seconds, at most until 12 hours after its receive.

        Raises:
            Refusal: The message is gone, or not hidden, or would be hidden for too
                long.
        """
        now, longest = self.now(), sqs_checks.VISIBILITY_LIMIT
        message, received = self._held(queue, handle)
        if message is None:
            raise sqs_checks.bad_value("Message does not exist.")
        if message.visible_at <= now:
            raise sqs_checks.not_in_flight()
        if not self._reaches(message, received):
            return
        if now + seconds > message.receives[-1] + longest:
            raise sqs_checks.bad_value("The total timeout is beyond the limit.")
        if now + seconds < message.visible_at:
            self._arrived[queue.url] = None
        queue.hide(message, now + seconds)

    def _held(self, queue: MessageQueue, handle: str) -> tuple[Stored | None, int]:
        """Return the message of a handle, if it is still there, and which receive."""
        queue.expire(self.now())
        name, *place = handle.split("/")
        if name != queue.name or [part.isdecimal() for part in place] != [True, True]:
            raise sqs_checks.bad_handle()
        serial, received = map(int, place)
        return queue.messages.get(serial), received

    def _reaches(self, message: Stored, received: int) -> bool:
        """Return whether a handle still affects its message; an old one may not."""
        return received == len(message.receives) or bool(self.rng.getrandbits(1))

    def _bury(self, queue: MessageQueue, dead: MessageQueue, message: Stored) -> None:
        """Move a message to the dead-letter queue; it keeps its age."""
        queue.remove(message)
        self._add(dead, replace(message, source_arn=queue.arn))

    def _copy(self, queue: MessageQueue, message: Stored, **changes: Any) -> None:
        """Store a copy of a message, like an SQS server that missed a later change."""
        changes |= {"serial": next(self._serials), "receives": list(message.receives)}
        self._add(queue, replace(message, **changes))

    def _add(self, queue: MessageQueue, message: Stored) -> None:
        queue.add(message)
        self._arrived[queue.url] = None
