"""Watch for states that last: a job that is stuck, a circuit breaker that stays open.

Only tenants with a webhook for such events are watched; `webhooks set` marks them. The
passes see without a read more which jobs make no progress. Only a job whose time has
come is explained, which takes at most 20 requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from piecework.domain.moments import iso, moment
from piecework.domain.occasion import Occasion, Subject
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.domain.webhook import (
    LOOKED_FOR,
    OVER,
    WATCHED,
    Webhook,
    WebhookEvent,
    event_id,
)
from piecework.explain.causes import find
from piecework.explain.findings import Finding, Rank
from piecework.explain.situation import Situation, read_situation
from piecework.reconciler.pass_state import Activity
from piecework.resilience.breaker import BreakerPhase
from piecework.runtime import Runtime
from piecework.store.breakers import FleetRecord, read_fleet
from piecework.store.occasions import Occasions
from piecework.store.outbox import webhooks_of

STUCK, BREAKER = WATCHED
#: Looks in the time of the webhook with the shortest one, and the bounds of the seconds
#: between two looks. A look is three small reads.
LOOKS, SHORTEST_LOOK_S, LONGEST_LOOK_S = 5, 1.0, 60.0
#: Jobs that one look explains at most: 20 requests for each.
EXPLAINED: Final = 10
MINUTE_S: Final = 60


@dataclass(slots=True)
class Watches:
    """The watched states, as one reconciler sees them.

    Attributes:
        activity: What the passes of this process saw of each active job.
    """

    rt: Runtime
    activity: Mapping[JobRef, Activity]
    _next: dict[str, float] = field(default_factory=dict)
    #: The seconds since 1970 before which a job is not explained again.
    _explain_at: dict[JobRef, float] = field(default_factory=dict)
    #: The noted jobs of which a worker ran a chunk at the look before.
    _running: set[JobRef] = field(default_factory=set)

    async def look(self, tenants: set[str], now: float) -> Counter[str]:
        """Look at the tenants whose look is due on the loop's clock."""
        actions: Counter[str] = Counter()
        for tenant in sorted(tenants):
            if self._next.get(tenant, 0.0) <= now:
                hooks = await webhooks_of(self.rt.table, tenant)
                look = Look(self, tenant, hooks)
                self._next[tenant] = now + look.pause_s
                actions += await look.run()
        return actions

    def keeps_running(self, ref: JobRef, seen: Activity) -> bool:
        """Return whether a worker ran a chunk at two looks in a row.

        An attempt that fails at once, such as a probe of a breaker, is not progress.
        """
        before = ref in self._running
        (self._running.add if seen.runs else self._running.discard)(ref)
        return seen.runs and before

    def explains(self, ref: JobRef, pause_s: float) -> bool:
        """Return whether a job may be explained now; then not for `pause_s`."""
        now = self.rt.clock()
        if self._explain_at.get(ref, 0.0) > now:
            return False
        known = {each: at for each, at in self._explain_at.items() if at > now}
        self._explain_at = known | {ref: now + pause_s}
        return True


@dataclass(slots=True)
class Look:
    """One look at the jobs of a tenant, and at the breakers."""

    watches: Watches
    tenant: str
    hooks: Sequence[Webhook]
    actions: Counter[str] = field(default_factory=Counter)

    @property
    def rt(self) -> Runtime:
        """The deployment."""
        return self.watches.rt

    @property
    def store(self) -> Occasions:
        """The occasions of the tenant."""
        return Occasions(self.rt.table, self.tenant, self.rt.clock)

    @property
    def pause_s(self) -> float:
        """The seconds until the next look."""
        shortest = min(map(self.after_s, self.hooks), default=LONGEST_LOOK_S)
        return min(max(shortest / LOOKS, SHORTEST_LOOK_S), LONGEST_LOOK_S)

    def after_s(self, hook: Webhook) -> float:
        """Return the seconds that a state lasts until a webhook is told."""
        return hook.after_s or self.rt.settings.webhook_after_s

    async def run(self) -> Counter[str]:
        """Note what begins, tell what lasts, and end what is over."""
        known = await self.store.all()
        wanted = [k for k in LOOKED_FOR if any(hook.wants(k) for hook in self.hooks)]
        if not {*wanted}.intersection(WATCHED):
            for occasion in known.values():
                await self._end(occasion, "is not watched any more")
            if not wanted:
                await self.store.unwatch()
            return self.actions
        await self._jobs({s: o for s, o in known.items() if s.kind == STUCK})
        await self._breakers({s: o for s, o in known.items() if s.kind == BREAKER})
        return self.actions

    # ── jobs ──────────────────────────────────────────────────────────────────

    async def _jobs(self, known: Mapping[Subject, Occasion]) -> None:
        """Look at the active jobs, and at the noted ones that have ended since."""
        jobs = {
            Subject(STUCK, ref.job, seen.job.pipeline): (ref, seen)
            for ref, seen in self.watches.activity.items()
            if ref.tenant == self.tenant
        }
        left = EXPLAINED
        for subject, (ref, seen) in jobs.items():
            occasion = known.get(subject)
            if occasion is None:
                if seen.is_idle and self._hooks_of(subject):
                    await self.store.begin(subject, iso(self.rt.clock()), seen.state)
            elif (
                occasion.state != seen.state
                or not seen.could_go_on
                or self.watches.keeps_running(ref, seen)
            ):
                acts = seen.job.status is JobStatus.RUNNING
                how = "makes progress" if acts else f"is {seen.job.status}"
                await self._end(occasion, how)
            elif seen.is_idle and left and (due := self._due(occasion)):
                left -= await self._explain(ref, seen, occasion, due)
        for subject, occasion in known.items():
            if subject not in jobs:
                job = await self.rt.jobs.read(JobRef(self.tenant, subject.name))
                if job is None or not job.status.is_open:
                    await self._end(occasion, f"is {job.status if job else 'deleted'}")

    async def _explain(
        self, ref: JobRef, seen: Activity, occasion: Occasion, due: Sequence[Webhook]
    ) -> bool:
        """Explain a job, and tell it if it is stuck; return whether it was read."""
        wait_s = min(map(self.after_s, due)) / LOOKS
        if not self.watches.explains(ref, wait_s):
            return False
        job = await self.rt.jobs.read(ref)
        if job is None:
            return True
        situation = await read_situation(self.rt, job)
        findings = find(situation)
        if any(finding.kind.code == "job.progressing" for finding in findings):
            await self._end(occasion, "makes progress")
        elif (cause := cause_of(findings, situation)) is not None:
            lasted_s = self.rt.clock() - moment(occasion.since)
            facts = {
                "since": occasion.since,
                "gen": job.gen,
                "open_chunks": seen.open,
                "finding": cause.document,
            }
            text = f"Job {ref.job} has made no progress for {minutes(lasted_s)}: "
            text += cause.message
            event = self._event(occasion, STUCK, text, cause.command, facts)
            told = await self.store.tell(occasion, due, event)
            self.actions["stuck job told"] += told
        return True

    # ── breakers ──────────────────────────────────────────────────────────────

    async def _breakers(self, known: Mapping[Subject, Occasion]) -> None:
        """Look at the breakers that are open, and at those that were noted."""
        if not known and not any(hook.wants(BREAKER) for hook in self.hooks):
            return
        fleet = await read_fleet(self.rt.table)
        waiting = self._pipelines_by_blocker()
        lasting = dict(known)
        for subject, occasion in known.items():
            now = fleet.breakers.get(subject.name)
            closed = now is None or now.phase is BreakerPhase.CLOSED
            if closed or fleet.closed_since(subject.name, occasion.since):
                how = "is closed" if closed else "was closed, and opened again"
                await self._end(occasion, how)
                del lasting[subject]
        for name, state in fleet.breakers.items():
            if state.phase is BreakerPhase.CLOSED:
                continue
            # A breaker that no call tries any more stays open, and stops no job.
            if waiting.get(name) or state.open_until > self.rt.clock():
                for pipeline in ("", *waiting.get(name, ())):
                    await self._open(Subject(BREAKER, name, pipeline), lasting, fleet)

    def _pipelines_by_blocker(self) -> dict[str, set[str]]:
        """Return the pipelines with chunks that wait, by what they wait for."""
        found: dict[str, set[str]] = {}
        for ref, seen in self.watches.activity.items():
            if ref.tenant == self.tenant:
                for name in seen.blocked_on:
                    found.setdefault(name, set()).add(seen.job.pipeline)
        return found

    async def _open(
        self, subject: Subject, known: Mapping[Subject, Occasion], fleet: FleetRecord
    ) -> None:
        """Note an open breaker, or tell that it has been open for long."""
        name, pipeline = subject.name, subject.pipeline
        occasion = known.get(subject)
        if occasion is None:
            if self._hooks_of(subject):
                since = fleet.opened_at.get(name) or iso(self.rt.clock())
                await self.store.begin(subject, since, "open")
            return
        due = self._due(occasion)
        if due:
            code = fleet.breakers[name].failure_code
            lasted_s = self.rt.clock() - moment(occasion.since)
            of = f" Chunks of pipeline {pipeline} wait for it." if pipeline else ""
            text = (
                f"The circuit breaker of dependency {name} has been open for"
                f" {minutes(lasted_s)} after {code}.{of}"
            )
            facts = {"since": occasion.since, "dependency": name, "code": code}
            command = f"piecework explain-code {code}"
            event = self._event(occasion, BREAKER, text, command, facts)
            told = await self.store.tell(occasion, due, event)
            self.actions["open breaker told"] += told

    # ── what is told to which webhooks ────────────────────────────────────────

    def _hooks_of(self, subject: Subject) -> list[Webhook]:
        """Return the webhooks that are told of a subject.

        The breaker of a dependency belongs to no pipeline. So a webhook of a pipeline
        is told if chunks of the pipeline wait, and the others are told once.
        """
        kind, _, pipeline = subject
        every = {""} if kind == STUCK else set()
        scopes = every | {pipeline}
        return [h for h in self.hooks if h.wants(kind) and h.pipeline in scopes]

    def _due(self, occasion: Occasion) -> list[Webhook]:
        """Return the webhooks that must be told of an occasion now."""
        lasted_s = self.rt.clock() - moment(occasion.since)
        return [
            hook
            for hook in self._hooks_of(occasion.subject)
            if hook.name not in occasion.told and lasted_s >= self.after_s(hook)
        ]

    async def _end(self, occasion: Occasion, now: str) -> None:
        """Forget an occasion; tell the webhooks that were told of it."""
        kind, name, _ = occasion.subject
        lasted = minutes(self.rt.clock() - moment(occasion.since))
        is_job = kind == STUCK
        what = f"Job {name}" if is_job else f"The circuit breaker of dependency {name}"
        before = "stuck" if is_job else "open"
        text = f"{what} {now}. It was {before} for {lasted}."
        command = f"piecework jobs show {name}" if is_job else "piecework limits list"
        facts = {"since": occasion.since, "began": self._id(occasion)}
        facts |= {} if is_job else {"dependency": name}
        event = self._event(occasion, kind + OVER, text, command, facts)
        ended = await self.store.end(occasion, self.hooks, event)
        self.actions["end of a state told"] += ended and bool(occasion.told)

    def _event(
        self,
        occasion: Occasion,
        kind: str,
        text: str,
        command: str,
        facts: Mapping[str, object],
    ) -> WebhookEvent:
        about = occasion.subject
        return WebhookEvent(
            kind=kind,
            id=self._id(occasion, kind.removeprefix(about.kind)),
            at=iso(self.rt.clock()),
            tenant=self.tenant,
            pipeline=about.pipeline,
            job=about.name if about.kind == STUCK else "",
            text=text,
            command=command,
            data=facts,
        )

    def _id(self, occasion: Occasion, end: str = "") -> str:
        """Return the id of the event of an occasion, or of its end."""
        return event_id(self.tenant, *occasion.subject, occasion.since, end)


def cause_of(findings: Sequence[Finding], situation: Situation) -> Finding | None:
    """Return why a quiet job is stuck; None: all its open chunks are meant to wait."""
    join = situation.join
    open_ = situation.open.number + (join is not None and not join.status.ended)
    meant = sum(finding.chunks for finding in findings if finding.kind.intended)
    causes = (
        finding
        for finding in findings
        if finding.kind.rank <= Rank.PASSES and not finding.kind.intended
    )
    return None if meant >= open_ else next(causes, None)


def minutes(seconds: float) -> str:
    """Return a span for a sentence."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} minutes"
