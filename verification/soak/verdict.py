"""The end of a soak: the verdict of each judge, its figures, and the last line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from verification.soak import pipelines
from verification.soak.cancels import Cancel, cancels
from verification.soak.history import RULES, check
from verification.soak.ledger import duplicates, for_an_operator, paid_twice, settle_up
from verification.soak.logs import lines_of
from verification.soak.plan import Plan
from verification.soak.record import Effect, Throttling, Violation
from verification.soak.recorded import limits, read_records
from verification.soak.run import Course
from verification.soak.site import THROTTLED
from verification.soak.takeover import Takeover, percentile, seconds, takeovers
from verification.soak.unproven import blind, unproven

MOST_PRINTED = 30
#: Disruptions of a worker.
ON_WORKERS = ("kill", "freeze", "stop")
#: Beyond the lease: by then another worker must own what a killed one owned.
GRACE_S = 5.0
#: By then a cancelled job must have quiesced, without other faults.
QUIESCED_S = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a soak.

    Attributes:
        unsettled: Chunks whose effects are not those of their end.
        for_an_operator: Chunks whose compensation failed, or was given up.
        read: How many records of each kind there were to judge by.
    """

    plan: Plan
    course: Course
    violations: list[Violation]
    unsettled: list[str]
    for_an_operator: int
    duplicate_effects: int
    paid_twice: int
    takeovers: list[Takeover]
    cancels: list[Cancel]
    read: Counter[str]

    def takeover_seconds(self, *, throttled: bool = False) -> list[float]:
        """Return how long each takeover took, throttled ones or the others."""
        return [t.seconds for t in self.takeovers if t.throttled is throttled]

    def broken(self) -> Iterator[str]:
        """Yield every broken rule, in words."""
        yield from blind(self.read)
        yield from map(str, self.violations)
        yield from self.unsettled
        yield from self.course.accounts.failures
        if self.duplicate_effects:
            yield f"{self.duplicate_effects} effects took place twice"
        if self.course.left_in_dead_letter_queue:
            yield f"{self.course.left_in_dead_letter_queue} messages in the DLQ"
        for worker in self.course.actors.fleet.stuck:
            yield f"SIGTERM did not stop {worker}"
        for failure in self.course.actors.traffic.failures:
            yield f"a command did not go through: {failure}"

    def late(self) -> Iterator[str]:
        """Yield the limits of time that were exceeded: a busy machine does that.

        Where nothing was measured nothing is late: `unproven` says so. How soon a
        cancel quiesces is judged without other faults. Under faults it is only
        printed: every tenth write of it waits for its retry. So is a takeover of a job
        whose rows AWS refused to read or write.
        """
        allowed = self.course.actors.settings.lease_s + GRACE_S
        if (p99 := percentile(self.takeover_seconds(), 0.99)) > allowed:
            yield f"takeovers take {p99:.2f} s (p99), not {allowed:g} s"
        p99 = percentile(self.cancel_seconds(without_faults=True), 0.99)
        if p99 > QUIESCED_S:
            yield f"a cancel quiesces after {p99:.2f} s (p99), not {QUIESCED_S:g} s"

    def unproven(self) -> Iterator[str]:
        """Yield what was asked for and never came about: a small soak does that."""
        hit = self.course.actors.killer.hit
        yield from unproven(self.plan, hit, self.takeovers, self.cancels)

    def cancel_seconds(self, *, without_faults: bool) -> list[float]:
        """Return how long each cancel took, under faults or without."""
        return [q.seconds for q in self.cancels if q.without_faults is without_faults]

    def figures(self) -> Iterator[str]:
        """Yield what was measured, for a person."""
        took, throttled = self.takeover_seconds(), self.takeover_seconds(throttled=True)
        allowed = self.course.actors.settings.lease_s + GRACE_S
        killed = len(self.course.actors.fleet.deaths)
        yield (
            f"takeover: {len(took)} chunks of {killed} killed "
            f"workers; p50 {seconds(took, 0.5)} s, "
            f"p99 {seconds(took, 0.99)} s, max {seconds(took, 1)} s, allowed "
            f"{allowed:g} s, later than that {sum(each > allowed for each in took)}; "
            f"{len(throttled)} while AWS refused requests for the job's rows: "
            f"p50 {seconds(throttled, 0.5)} s, max {seconds(throttled, 1)} s"
        )
        for cancel in self.cancels:
            yield (
                f"cancel of {cancel.job}: quiesced after {cancel.seconds:.2f} s, "
                f"{cancel.calls} calls ended after the request"
                f"{', without faults' if cancel.without_faults else ''}"
            )
        yield (
            f"calls paid twice: {self.paid_twice}; their answers were lost by the "
            "provider, by the network, or before they were stored"
        )
        injected = self.course.faults.most_common()
        faults = ", ".join(f"{n} {name}" for name, n in injected)
        read = ", ".join(f"{n} {kind}" for kind, n in self.read.items())
        yield f"history: {read}; {len(RULES)} rules"
        yield f"AWS: {self.course.requests} requests; faults: {faults}"
        yield (
            f"also: {self.course.actors.fleet.replaced} workers ended by themselves, "
            f"{self.course.actors.traffic.submits_killed} submits killed"
        )
        yield self.disruptions()

    def disruptions(self) -> str:
        """Say which disruptions were tried, and which hit a worker."""
        killer = self.course.actors.killer
        tried = Counter(name for name, _ in killer.done)
        hit = ", ".join(f"{killer.hit[b]} of {tried[b]} {b}s" for b in ON_WORKERS)
        return (
            f"disruptions: {tried.total()}; hit a worker: {hit}, "
            f"{killer.on_idle_workers} of them an idle one; "
            f"cancelled: {len(self.cancels)} of {2 * self.plan.cancels}"
        )

    def last_line(self) -> str:
        """Return the one line that others read."""
        hit = self.course.actors.killer.hit
        accounts, took = self.course.accounts, self.takeover_seconds()
        throttled = self.takeover_seconds(throttled=True)
        calm = self.cancel_seconds(without_faults=True)
        faulty = self.cancel_seconds(without_faults=False)
        facts = {
            "chunks": accounts.chunks,
            "kills": len(self.course.actors.fleet.deaths),
            "freezes": hit["freeze"],
            "stops": hit["stop"],
            "cancels": len(self.cancels),
            "lost": accounts.lost,
            "duplicate_effects": self.duplicate_effects,
            "nonterminal_jobs": accounts.nonterminal,
            "unsettled_chunks": len(self.unsettled),
            "left_to_an_operator": self.for_an_operator,
            "history_violations": len(self.violations),
            "takeovers": len(took),
            "takeover_p50_s": seconds(took, 0.5),
            "takeover_p99_s": seconds(took, 0.99),
            "takeover_max_s": seconds(took, 1),
            "throttled_takeovers": len(throttled),
            "throttled_max_s": seconds(throttled, 1),
            "cancel_to_quiesced_p99_s": seconds(calm, 0.99),
            "under_faults_p99_s": seconds(faulty, 0.99),
            "calls_after_cancel": sum(q.calls for q in self.cancels),
            "calls_paid_twice": self.paid_twice,
            "requests": self.course.requests,
            "seed": self.plan.seed,
            "seconds": f"{self.course.seconds:.0f}",
        }
        return " ".join(f"{name}={value}" for name, value in facts.items())


def judge(plan: Plan, course: Course) -> Verdict:
    """Ask all judges."""
    changes, folder = course.actors.changes, course.actors.site.folder
    records = read_records(folder)
    effects = [record for record in records if isinstance(record, Effect)]
    persons = for_an_operator(changes.all)
    sagas = {job.name for job in plan.jobs() if job.pipeline == pipelines.saga.name}
    return Verdict(
        plan,
        course,
        violations=check(records, limits(course.actors.settings, folder)),
        unsettled=settle_up(
            effects, {job: changes.chunks[job] for job in sorted(sagas)}, persons
        ),
        for_an_operator=len(persons),
        duplicate_effects=duplicates(effects, pipelines.NAIVE),
        paid_twice=paid_twice(effects),
        takeovers=takeovers(
            changes.all,
            course.actors.fleet.deaths,
            [Throttling(**line) for line in lines_of(folder / THROTTLED)],
            course.actors.settings.lease_s,
        ),
        cancels=cancels(
            changes.all,
            # A compensating call may finish.
            [effect for effect in effects if effect.what != "undone"],
            course.actors.killer.calm_periods,
        ),
        read=Counter(type(record).__name__ for record in records),
    )
