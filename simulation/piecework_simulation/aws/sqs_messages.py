"""Store a standard queue's messages: visible, hidden and expired ones.

Two heaps make the cost of a receive independent of the number of messages. One orders
hidden messages by time, the other orders visible messages by age. Heap entries may be
out of date; the message itself is authoritative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Final

from piecework_simulation.aws import sqs_requests
from piecework_simulation.aws.errors import Chaos

ACCOUNT = "000000000000"
REGION = "us-east-1"


@dataclass(slots=True)
class Stored:
    """A message as one queue stores it.

    Attributes:
        serial: Its unique number, which its receipt handles contain. A copy of a
            message has the same message id and another serial.
        receives: The time of each receive.
        returned: It was deleted already, and became visible again.
        place: Its position in the arrival order of its queue.
        attributes: What its sender gave it beside the body.
    """

    serial: int
    message_id: str
    body: str
    sent_at: float
    visible_at: float
    receives: list[float] = field(default_factory=list)
    source_arn: str | None = None
    returned: bool = False
    place: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class MessageQueue:
    """One queue.

    Attributes:
        dead: The queue for messages that were received `most_receives` times.
        oldest: A lower bound of the send time of all messages.
    """

    name: str
    visibility_s: float
    retention_s: float
    dead: MessageQueue | None
    most_receives: int
    created_at: float
    messages: dict[int, Stored] = field(default_factory=dict)
    oldest: float = float("inf")
    _hidden: list[tuple[float, int]] = field(default_factory=list)
    _visible: dict[int, Stored] = field(default_factory=dict)
    _order: list[tuple[int, int]] = field(default_factory=list)
    _came: int = 0

    url: str = field(init=False)
    arn: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the queue's URL and ARN."""
        self.url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.name}"
        self.arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"

    def add(self, message: Stored) -> None:
        """Store a message, as old as it is."""
        self._came += 1
        message.place = self._came
        self.messages[message.serial] = message
        self.oldest = min(self.oldest, message.sent_at)
        self.hide(message, message.visible_at)

    def hide(self, message: Stored, until: float) -> None:
        """Hide a message until then."""
        message.visible_at = until
        self._visible.pop(message.serial, None)
        heappush(self._hidden, (until, message.serial))

    def remove(self, message: Stored) -> None:
        """Forget a message."""
        del self.messages[message.serial]
        self._visible.pop(message.serial, None)

    def expire(self, now: float) -> None:
        """Remove messages older than the retention period, in flight or not."""
        if now - self.oldest < self.retention_s:
            return
        kept = [m for m in self.messages.values() if now - m.sent_at < self.retention_s]
        self.messages = {m.serial: m for m in kept}
        self._visible = {n: m for n, m in self._visible.items() if n in self.messages}
        self.oldest = min((m.sent_at for m in kept), default=float("inf"))

    def appear(self, now: float) -> int:
        """Make due messages visible; return the number of visible messages."""
        while self._next_hidden() <= now:
            _, serial = heappop(self._hidden)
            message = self._visible[serial] = self.messages[serial]
            heappush(self._order, (message.place, serial))
        return len(self._visible)

    def take(self, place: int) -> Stored:
        """Return a visible message, by its place in the arrival order.

        The message is then neither visible nor hidden; the caller must hide or remove
        it.
        """
        if place:
            in_order = sorted(self._visible.values(), key=lambda m: m.place)
            return self._visible.pop(in_order[place].serial)
        while True:
            message = self._visible.pop(heappop(self._order)[1], None)
            if message is not None:
                return message

    def next_at(self) -> float | None:
        """Return when the next message becomes visible before it expires."""
        times = [m.visible_at for m in self._visible.values()]
        found = min([self._next_hidden(), *times])
        return None if found == float("inf") else found

    def _next_hidden(self) -> float:
        """Return when the next hidden message becomes visible before it expires."""
        while self._hidden:
            at, serial = self._hidden[0]
            message = self.messages.get(serial)
            if (
                message is not None
                and serial not in self._visible
                and at == message.visible_at < message.sent_at + self.retention_s
            ):
                return at
            heappop(self._hidden)
        return float("inf")

    def counts(self, now: float) -> dict[str, int]:
        """Return the numbers that AWS calls approximate."""
        visible = in_flight = delayed = 0
        for message in self.messages.values():
            if message.visible_at <= now:
                visible += 1
            elif message.receives:
                in_flight += 1
            else:
                delayed += 1
        return {
            "ApproximateNumberOfMessages": visible,
            "ApproximateNumberOfMessagesNotVisible": in_flight,
            "ApproximateNumberOfMessagesDelayed": delayed,
        }

    def handle(self, message: Stored) -> str:
        """Return the receipt handle of a message's newest receive."""
        return f"{self.name}/{message.serial}/{len(message.receives)}"


# ── send, receive, hide, delete and dead-letter messages ──────────────────────
#
# Where AWS leaves the result open (an old receipt handle), a random draw decides. Where
# a fault is possible (a duplicate, a loss, a redelivery), `chaos` decides.

#: Seconds by which a message may be late. And after which a deleted one may come back.
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

    def send(
        self,
        queue: MessageQueue,
        body: str,
        delay_s: float,
        attributes: Mapping[str, Any],
    ) -> Stored:
        """Store a sent message."""
        if self.chaos.fires("sqs.delay"):
            delay_s += self.rng.uniform(0, LATE_S)
        now, serial = self.now(), next(self._serials)
        message_id = f"{serial:08x}-0000-4000-8000-000000000000"
        message = Stored(serial, message_id, body, now, now + delay_s)
        message.attributes = attributes
        if self.chaos.fires("sqs.lost"):
            return message
        self._add(queue, message)
        if self.chaos.fires("sqs.duplicate"):
            self._copy(queue, message)
        return message

    def deliver(self, queue: MessageQueue, most: int, hide_s: float) -> list[Stored]:
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
                self._to_dlq(queue, queue.dead, message)
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
        now, longest = self.now(), sqs_requests.VISIBILITY_LIMIT
        message, received = self._held(queue, handle)
        if message is None:
            raise sqs_requests.bad_value("Message does not exist.")
        if message.visible_at <= now:
            raise sqs_requests.not_in_flight()
        if not self._reaches(message, received):
            return
        if now + seconds > message.receives[-1] + longest:
            raise sqs_requests.bad_value("The total timeout is beyond the limit.")
        if now + seconds < message.visible_at:
            self._arrived[queue.url] = None
        queue.hide(message, now + seconds)

    def _held(self, queue: MessageQueue, handle: str) -> tuple[Stored | None, int]:
        """Return the message of a handle, if it is still there, and which receive."""
        queue.expire(self.now())
        name, *place = handle.split("/")
        if name != queue.name or [part.isdecimal() for part in place] != [True, True]:
            raise sqs_requests.bad_handle()
        serial, received = map(int, place)
        return queue.messages.get(serial), received

    def _reaches(self, message: Stored, received: int) -> bool:
        """Return whether a handle still affects its message; an old one may not."""
        return received == len(message.receives) or bool(self.rng.getrandbits(1))

    def _to_dlq(self, queue: MessageQueue, dead: MessageQueue, message: Stored) -> None:
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
