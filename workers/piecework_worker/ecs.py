"""Keep ECS from ending this task during a scale-in or deployment while it has work.

The worker requests protection when it has a chunk, and renews it before it expires. It
gives protection back only after some idle time. So a worker with little work does not
request it for every chunk. `ProtectionPolicy` decides; this module acts.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.domain.rows import PROCESS
from piecework_worker.siblings import Workload

if TYPE_CHECKING:
    import aiohttp

# ── call the ECS agent of a task ──────────────────────────────────────────────
#
# The agent's addresses are in the environment of every task. They are link-local:
# reachable by this task alone, over plain HTTP, without a proxy.

#: Seconds to wait for an answer, and bytes of it that are read.
TIMEOUT_S = 2.0
MAX_BYTES = 65_536


class AgentError(Exception):
    """The agent did not answer, or refused; the message is the reason."""


async def request(url: str, put: dict[str, Any] | None = None) -> dict[str, Any]:
    """GET a URL of the agent, or PUT a document there; return the answer.

    Raises:
        AgentError: The agent did not answer, refused, or sent an unreadable answer.
    """
    import aiohttp  # only a task of ECS needs it

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.request("PUT" if put else "GET", url, json=put) as reply,
        ):
            body = json.loads(await read_body(reply.content) or b"{}")
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        raise AgentError(type(error).__name__) from error
    if not isinstance(body, dict):
        raise AgentError("the answer is not an object")
    reason = refusal_reason(body) or ("" if reply.ok else f"HTTP {reply.status}")
    if reason:
        raise AgentError(reason)
    return body


async def read_body(content: aiohttp.StreamReader) -> bytes:
    """Return the body of an answer, at most `MAX_BYTES`; it may arrive in pieces."""
    body = b""
    while piece := await content.read(MAX_BYTES - len(body)):
        body += piece
    return body


def refusal_reason(body: dict[str, Any]) -> str:
    """Return the reason of a refusal; an empty text means that the agent complied."""
    for part, field in (("error", "Code"), ("failure", "Reason")):
        if isinstance(found := body.get(part), dict):
            return str(found.get(field, part))
    return ""


# ── decide when a task requests ECS protection ────────────────────────────────
#
# A task that always has work would never give protection back, and a deployment would
# wait forever. So the task pauses its intake now and then until it has no chunk. It is
# unprotected for a moment only then, when ECS cannot interrupt any work.

#: Minutes of one protection. A frozen worker is not protected for longer.
MINUTES = 10
#: Seconds before its expiry at which protection is renewed.
RENEW_AHEAD_S = 300.0
#: Idle seconds after which protection is given back.
IDLE_S = 30.0
#: Seconds of continuous protection before a pause. A deployment waits at most that long
#: plus the longest chunk. A shorter time would cost more unprotected gaps. More slots
#: would stay empty until the worker's last chunk has ended.
PAUSE_AFTER_S = 3600.0
#: Fraction by which the pause may come earlier. Otherwise tasks that were launched
#: together would all pause at once.
JITTER = 0.25
#: Idle seconds of a pause before protection is given back. By then the last chunk is
#: counted (`ack_batch_s`), and a join that this starts is claimed.
PAUSE_IDLE_S = 10.0
#: Unprotected seconds, in which ECS can end the task.
UNPROTECTED_S = 60.0
#: Longest delay in seconds between two requests after a refusal.
MAX_RETRY_DELAY_S = 60.0


@dataclass(slots=True)
class ProtectionPolicy:
    """Decides which protection to request, and when.

    Attributes:
        pause_after_s: Seconds of continuous protection until a pause.
        protected_until: When the current protection expires.
        protected_since: When it started; a renewal does not change it.
        busy_at: When the worker last had work.
        gap_ends_at: When the unprotected gap after a pause ends; 0: there is no gap.
        retry_at: Before this moment a refused request is not repeated.
        refusals: Refusals since the last grant.
    """

    pause_after_s: float
    protected_until: float = 0.0
    protected_since: float = 0.0
    busy_at: float = 0.0
    gap_ends_at: float = 0.0
    retry_at: float = 0.0
    refusals: int = 0

    def must_pause(self, now: float) -> bool:
        """Return whether to pause the intake: before the gap, and in it."""
        is_due = (
            now < self.protected_until
            and now - self.protected_since >= self.pause_after_s
        )
        return is_due or self.gap_ends_at > 0.0

    def desired_change(self, now: float, *, busy: bool) -> bool | None:
        """Return True to request protection, False to end it, None for no change."""
        if 0.0 < self.gap_ends_at <= now:
            self.gap_ends_at, busy = 0.0, True  # protected before it takes anything
        self.busy_at = now if busy else self.busy_at
        if now < max(self.gap_ends_at, self.retry_at):
            return None
        if now >= self.protected_until:
            return True if busy else None
        if now - self.busy_at >= (PAUSE_IDLE_S if self.must_pause(now) else IDLE_S):
            return False
        return True if busy and self.protected_until - now <= RENEW_AHEAD_S else None

    def on_granted(self, now: float, *, on: bool) -> None:
        """Record that ECS granted a request."""
        self.refusals = 0
        if on:
            self.protected_since = (
                self.protected_since if now < self.protected_until else now
            )
            self.protected_until = now + MINUTES * 60
            return
        self.gap_ends_at = now + UNPROTECTED_S if self.must_pause(now) else 0.0
        self.protected_until = 0.0

    def on_refused(self, now: float) -> bool:
        """Record a refusal; return whether it is the first in a row."""
        self.refusals += 1
        self.retry_at = now + min(MAX_RETRY_DELAY_S, 2.0 * self.refusals)
        return self.refusals == 1


def draw_pause_interval(rng: Random) -> float:
    """Draw the seconds of continuous protection until a pause."""
    return PAUSE_AFTER_S * rng.uniform(1.0 - JITTER, 1.0)


AGENT = "ECS_AGENT_URI"
#: Seconds between two checks of the workload.
POLL_S = 1.0


@dataclass(slots=True)
class Protection:
    """Controls the protection of this task, which starts unprotected."""

    agent: str
    workload: Workload
    log: telemetry.Log
    policy: ProtectionPolicy

    async def run(self, stop: asyncio.Event) -> None:
        """Control the protection until the stop, then give it back (only on ECS)."""
        now = asyncio.get_running_loop().time
        try:
            while self.agent and not stop.is_set():
                await self.poll(now())
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await stop.wait()
        finally:
            self.workload.pause_intake(on=False)
        if now() < self.policy.protected_until:
            await self.set_protection(on=False)

    async def poll(self, now: float) -> None:
        """Request the change that is due; pause the intake first if the policy must."""
        paused, workload = self.policy.must_pause(now), self.workload
        workload.pause_intake(on=paused)
        left = workload.count_unfinished() if paused else workload.lease_count()
        change = self.policy.desired_change(now, busy=left > 0)
        if change is not None:
            await self.set_protection(on=change)

    async def set_protection(self, *, on: bool) -> None:
        """Request protection or its end; log the first refusal of a row, and retry."""
        now = asyncio.get_running_loop().time
        change = {"ProtectionEnabled": on} | (
            {"ExpiresInMinutes": MINUTES} if on else {}
        )
        try:
            await request(f"{self.agent}/task-protection/v1/state", change)
        except AgentError as error:
            if self.policy.on_refused(now()):
                reason = str(error)
                telemetry.emit(
                    self.log, "ecs.refused", about="protection", reason=reason
                )
            return
        self.policy.on_granted(now(), on=on)
        telemetry.emit(self.log, "ecs.protection", on=on, minutes=MINUTES if on else 0)


# ── read the metadata of this ECS task ────────────────────────────────────────
#: Characters of a task's id in the worker's name: enough to be unique.
TASK_ID_CHARS = 12
ID = re.compile(r"[0-9a-zA-Z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Task:
    """An ECS task.

    Attributes:
        desired_status: RUNNING, or STOPPED once ECS ends the task.
        image: The digest of its image; empty: it has several, or no digest.
        memory_mb: The megabytes of its memory; 0: the agent does not say.
        cpus: Its vCPUs; 0: the agent does not say.
    """

    id: str
    zone: str
    desired_status: str
    image: str = ""
    memory_mb: int = 0
    cpus: float = 0.0


async def current_task(metadata: str, log: telemetry.Log) -> Task | None:
    """Return the task of this process; None without ECS or without an answer.

    `metadata` is the URL of the task's metadata; empty without ECS.
    """
    if not metadata:
        return None
    try:
        told = await request(f"{metadata}/task")
    except AgentError as error:
        telemetry.emit(log, "ecs.refused", about="metadata", reason=str(error))
        return None
    task = str(told.get("TaskARN", "")).rpartition("/")[2]
    if not ID.fullmatch(task):
        telemetry.emit(log, "ecs.refused", about="metadata", reason="no TaskARN")
        return None
    zone, desired = told.get("AvailabilityZone", ""), told.get("DesiredStatus", "")
    memory_mb, cpus = int(limit_of(told, "Memory")), limit_of(told, "CPU")
    return Task(task, str(zone), str(desired), image_of(told), memory_mb, cpus)


def limit_of(told: dict[str, Any], name: str) -> float:
    """Return a limit of a task, from its metadata; 0: unknown."""
    limits = told.get("Limits")
    found = limits.get(name) if isinstance(limits, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0


def image_of(told: dict[str, Any]) -> str:
    """Return the digest of the only image of a task, from its metadata."""
    containers = told.get("Containers")
    found = {
        str(each.get("ImageID", ""))
        for each in (containers if isinstance(containers, list) else [])
        if isinstance(each, dict) and each.get("Type", "NORMAL") == "NORMAL"
    }
    return found.pop() if len(found) == 1 else ""


def worker_name(task: Task | None, host: str, pid: int, parent: int = 0) -> str:
    """Return the worker's name: its task's id, or else its host, and its pid.

    A process of several has the name of the worker, which is that of their `parent`,
    and its own pid. So what it reserves stays apart, also from what a dead process had.
    """
    place = task.id[:TASK_ID_CHARS] if task else host
    return f"{place}-{parent}{PROCESS}{pid}" if parent else f"{place}-{pid}"
