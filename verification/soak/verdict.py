"""The end of a soak: every judge's word, the measured figures, and the last line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from verification.soak import pipelines
from verification.soak.history import RULES, check
from verification.soak.ledger import duplicates, left_to_a_person, paid_twice, settle_up
from verification.soak.plan import Plan
from verification.soak.quiet import Quiet, quiets
from verification.soak.record import Effect, Violation
from verification.soak.recorded import limits, read_records
from verification.soak.run import Course
from verification.soak.takeover import Takeover, percentile, seconds, takeovers
from verification.soak.unproven import blind, unproven

MOST_TOLD = 30
#: Blows that are aimed at a worker.
STRIKES = ("kill", "freeze", "stop")
#: Over the lease, by then another has to have what a killed worker held.
GRACE_S = 5.0
#: By then a cancelled job has to be quiet, when nothing else goes wrong.
QUIET_S = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a soak came to.

    Attributes:
        unsettled: Chunks whose effects are not those of their end.
        left_to_a_person: Chunks whose undoing failed, or was given up.
        read: How many records of each kind there were to judge by.
    """

    plan: Plan
    course: Course
    violations: list[Violation]
    unsettled: list[str]
    left_to_a_person: int
    duplicate_effects: int
    paid_twice: int
    takeovers: list[Takeover]
    quiets: list[Quiet]
    read: Counter[str]

    @property
    def takeover_seconds(self) -> list[float]:
        """How long each takeover took."""
        return [takeover.seconds for takeover in self.takeovers]

    def broken(self) -> Iterator[str]:
        """Yield every promise that was broken, in words."""
        yield from blind(self.read)
        yield from map(str, self.violations)
        yield from self.unsettled
        yield from self.course.accounts.complaints
        if self.duplicate_effects:
            yield f"{self.duplicate_effects} effects took place twice"
        if self.course.left_in_dead_letter_queue:
            yield f"{self.course.left_in_dead_letter_queue} messages in the DLQ"
        for worker in self.course.actors.crew.stuck:
            yield f"SIGTERM did not stop {worker}"
        for failure in self.course.actors.traffic.failures:
            yield f"a command did not go through: {failure}"

    def late(self) -> Iterator[str]:
        """Yield the promises of time that were broken: a busy machine does that.

        Where nothing was measured nothing is late: `unproven` says so. How soon a
        cancel is quiet is judged where nothing else goes wrong. Under these faults it
        is told: every tenth write of it waits for its retry.
        """
        allowed = self.course.actors.settings.lease_s + GRACE_S
        if (p99 := percentile(self.takeover_seconds, 0.99)) > allowed:
            yield f"takeovers take {p99:.2f} s (p99), not {allowed:g} s"
        if (p99 := percentile(self.quiet_seconds(in_a_lull=True), 0.99)) > QUIET_S:
            yield f"a cancel is quiet after {p99:.2f} s (p99), not {QUIET_S:g} s"

    def unproven(self) -> Iterator[str]:
        """Yield what was asked for and never came about: a small soak does that."""
        met = self.course.actors.killer.met
        yield from unproven(self.plan, met, self.takeovers, self.quiets)

    def quiet_seconds(self, *, in_a_lull: bool) -> list[float]:
        """Return how long each cancel took, under faults or without."""
        return [q.seconds for q in self.quiets if q.in_a_lull is in_a_lull]

    def figures(self) -> Iterator[str]:
        """Yield what was measured, for a person."""
        took, lease_s = self.takeover_seconds, self.course.actors.settings.lease_s
        killed = len(self.course.actors.crew.deaths)
        late = [t for t in self.takeovers if t.seconds > lease_s + GRACE_S]
        yield (
            f"takeover: {len(took)} chunks of {killed} killed "
            f"workers; p50 {seconds(took, 0.5)} s, "
            f"p99 {seconds(took, 0.99)} s, max {seconds(took, 1)} s, "
            f"allowed {lease_s + GRACE_S:g} s, later than that {len(late)}"
        )
        for quiet in self.quiets:
            yield (
                f"cancel of {quiet.job}: quiet after {quiet.seconds:.2f} s, "
                f"{quiet.calls} calls ended after it was asked"
                f"{', in a lull' if quiet.in_a_lull else ''}"
            )
        yield (
            f"calls paid for twice: {self.paid_twice}; their answers were lost by the "
            "provider, on their way, or not yet written"
        )
        put_in = self.course.faults.most_common()
        faults = ", ".join(f"{n} {name}" for name, n in put_in)
        read = ", ".join(f"{n} {kind}" for kind, n in self.read.items())
        yield f"history: {read}; {len(RULES)} rules"
        yield f"AWS: {self.course.requests} requests; faults: {faults}"
        yield (
            f"beside: {self.course.actors.crew.replaced} workers ended by themselves, "
            f"{self.course.actors.traffic.submits_killed} submits killed"
        )
        yield self.blows()

    def blows(self) -> str:
        """Say what was tried, and what of it came about."""
        killer = self.course.actors.killer
        told = Counter(blow for blow, _ in killer.dealt)
        met = ", ".join(f"{killer.met[b]} of {told[b]} {b}s" for b in STRIKES)
        return (
            f"blows: {told.total()}; met a worker: {met}, "
            f"{killer.in_vain} of them one with empty hands; "
            f"cancelled: {len(self.quiets)} of {2 * self.plan.cancels}"
        )

    def last_line(self) -> str:
        """Return the one line that others read."""
        met = self.course.actors.killer.met
        accounts, took = self.course.accounts, self.takeover_seconds
        quiet = self.quiet_seconds(in_a_lull=True)
        faulty = self.quiet_seconds(in_a_lull=False)
        facts = {
            "chunks": accounts.chunks,
            "kills": len(self.course.actors.crew.deaths),
            "freezes": met["freeze"],
            "stops": met["stop"],
            "cancels": len(self.quiets),
            "lost": accounts.lost,
            "duplicate_effects": self.duplicate_effects,
            "nonterminal_jobs": accounts.nonterminal,
            "unsettled_chunks": len(self.unsettled),
            "left_to_a_person": self.left_to_a_person,
            "history_violations": len(self.violations),
            "takeovers": len(took),
            "takeover_p50_s": seconds(took, 0.5),
            "takeover_p99_s": seconds(took, 0.99),
            "takeover_max_s": seconds(took, 1),
            "cancel_to_quiet_p99_s": seconds(quiet, 0.99),
            "under_faults_p99_s": seconds(faulty, 0.99),
            "calls_after_cancel": sum(q.calls for q in self.quiets),
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
    persons = left_to_a_person(changes.all)
    sagas = {job.name for job in plan.jobs() if job.pipeline == pipelines.saga.name}
    return Verdict(
        plan,
        course,
        violations=check(records, limits(course.actors.settings, folder)),
        unsettled=settle_up(
            effects, {job: changes.chunks[job] for job in sorted(sagas)}, persons
        ),
        left_to_a_person=len(persons),
        duplicate_effects=duplicates(effects, pipelines.NAIVE),
        paid_twice=paid_twice(effects),
        takeovers=takeovers(changes.all, course.actors.crew.deaths),
        quiets=quiets(
            changes.all,
            # One that undoes is let finish on purpose.
            [effect for effect in effects if effect.what != "undone"],
            course.actors.killer.lulls,
        ),
        read=Counter(type(record).__name__ for record in records),
    )
