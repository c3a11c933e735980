"""A queue and an ECS service of workers, second by second.

What a worker does about its protection is decided by the code that does it on AWS.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from random import Random

from piecework_worker.ecs import ProtectionPolicy, draw_pause_interval
from verification.scaling.arrivals import Chunk

#: Seconds between the change for a task and its first request, on Fargate.
START_S = (40.0, 60.0)
#: Messages of one receive, and thus of one task and second.
BATCH = 10
#: Seconds that a stopping worker gives its chunks, as in service.yaml.
GRACE_S = 90.0


@dataclass(slots=True)
class Task:
    """One worker."""

    launched: float
    ready: float
    policy: ProtectionPolicy
    in_progress: set[int] = field(default_factory=set)
    ends: float | None = None

    def protected(self, now: float) -> bool:
        """Return whether ECS may not end it."""
        return now < self.policy.protected_until


@dataclass(slots=True)
class Fleet:
    """The workers, their chunks, and the messages that wait."""

    chunks: tuple[Chunk, ...]
    slots: int
    protection: str
    rng: Random
    desired: int = 0
    tasks: list[Task] = field(default_factory=list)
    visible: deque[int] = field(default_factory=deque)
    done_at: dict[int, float] = field(default_factory=dict)
    begun_at: dict[int, float] = field(default_factory=dict)
    interrupted: int = 0
    pauses: int = 0
    task_s: float = 0.0
    #: Its own, so that the rest has the same luck with and without.
    _pauses: Random = field(default_factory=lambda: Random(0))
    _sent: int = 0
    _ends: list[tuple[float, int, int]] = field(default_factory=list)
    _hidden: list[tuple[float, int]] = field(default_factory=list)
    _waited: set[int] = field(default_factory=set)
    _turns: dict[int, int] = field(default_factory=dict)
    _owner: dict[int, Task] = field(default_factory=dict)

    def second(self, now: float) -> None:
        """Let a second pass."""
        self._send(now)
        self._finish(now)
        self._launch(now)
        self._receive(now)
        self._protect(now)
        self._shrink(now)
        self._end(now)
        self.task_s += len(self.tasks)

    @property
    def hidden(self) -> int:
        """Messages that are hidden without a worker."""
        return len(self._hidden)

    @property
    def over(self) -> bool:
        """Whether every chunk is done."""
        return len(self.done_at) == len(self.chunks)

    def running(self, now: float) -> list[Task]:
        """Return the tasks that work."""
        return [task for task in self.tasks if task.ready <= now]

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest message, hidden ones counted."""
        left = (n for n in range(self._sent) if n not in self.done_at)
        oldest = next(left, None)
        return None if oldest is None else now - self.chunks[oldest].at

    def _send(self, now: float) -> None:
        while self._sent < len(self.chunks) and self.chunks[self._sent].at <= now:
            self.visible.append(self._sent)
            self._sent += 1
        while self._hidden and self._hidden[0][0] <= now:
            self.visible.append(heapq.heappop(self._hidden)[1])

    def _finish(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            ended, number, turn = heapq.heappop(self._ends)
            if self._turns[number] != turn:
                continue
            self._owner[number].in_progress.discard(number)
            if (wait := self.chunks[number].hidden_s) and number not in self._waited:
                self._waited.add(number)
                heapq.heappush(self._hidden, (ended + wait, number))
            else:
                self.done_at[number] = ended

    def _launch(self, now: float) -> None:
        alive = sum(task.ends is None for task in self.tasks)
        for _ in range(self.desired - alive):
            ready = now + self.rng.uniform(*START_S)
            self.tasks.append(Task(now, ready, self._new_policy()))

    def _new_policy(self) -> ProtectionPolicy:
        kept = self.protection == "kept"
        return ProtectionPolicy(math.inf if kept else draw_pause_interval(self._pauses))

    def _receive(self, now: float) -> None:
        if not self.visible:
            return
        open_ = [task for task in self.running(now) if task.ends is None]
        self.rng.shuffle(open_)
        for task in open_:
            if task.policy.must_pause(now):
                continue
            free = self.slots - len(task.in_progress)
            for _ in range(min(BATCH, free, len(self.visible))):
                self._begin(self.visible.popleft(), task, now)

    def _begin(self, number: int, task: Task, now: float) -> None:
        turn = self._turns[number] = self._turns.get(number, 0) + 1
        self.begun_at.setdefault(number, now)
        self._owner[number] = task
        task.in_progress.add(number)
        end = now + self.chunks[number].seconds
        heapq.heappush(self._ends, (end, number, turn))

    def _protect(self, now: float) -> None:
        if self.protection == "none":
            return
        for task in self.running(now):
            change = task.policy.desired_change(now, busy=bool(task.in_progress))
            if change is not None:
                self.pauses += task.policy.must_pause(now) and not change
                task.policy.on_granted(now, on=change)

    def _shrink(self, now: float) -> None:
        """End tasks beyond the target: the oldest first, never a protected one."""
        alive = [task for task in self.tasks if task.ends is None]
        surplus = len(alive) - self.desired
        if surplus <= 0:
            return
        free = [task for task in alive if not task.protected(now)]
        self.rng.shuffle(free)
        free.sort(key=lambda task: task.ready <= now)
        for task in free[:surplus]:
            task.ends = now + GRACE_S if task.in_progress else now

    def _end(self, now: float) -> None:
        """End the tasks whose chunks have ended, or whose time is over."""
        kept = []
        for task in self.tasks:
            if task.ends is None or (task.in_progress and now < task.ends):
                kept.append(task)
                continue
            self.interrupted += len(task.in_progress)
            for number in task.in_progress:
                self._turns[number] += 1
                self.visible.appendleft(number)
        self.tasks = kept
