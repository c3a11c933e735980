"""Check that a job spends no more than its budget and its calls in flight.

The provider tells which calls it has answered to a living worker. A call that is made
again after a kill counts once. Its first answer was in flight, or in no record yet. The
same holds for an answer that comes when another worker has taken the chunk over.

What a call used beyond its estimate may exceed the cap, and so may a call that does not
wait for the budget: of a compensation, of a job that is being cancelled, and one that a
lookup may find. The estimates of the built-in pipelines are exact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.states import JobStatus
from piecework.store.budgets import read_budget
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.engine.process import PROCESS, Process

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World
    from piecework_simulation.provider import OutgoingCall

#: Seconds before its end, or before it froze, in which a worker may have got answers
#: that no record has. The journal is written every 250 ms, and the table may be slow.
UNRECORDED_S = 5.0


@dataclass(slots=True)
class Answer:
    """A call that the provider has answered.

    Attributes:
        at: When; the process that got it may have died since.
        tokens: What it used, at most its estimate.
        is_late: Whether another worker had claimed the chunk meanwhile.
    """

    process: Process | None
    at: float
    tokens: int
    is_late: bool


@dataclass(slots=True)
class BudgetInvariants:
    """What the calls of each job with a budget have used, and its highest cap.

    Attributes:
        allowed: What the calls of each job may use beyond its cap.
        cancelling: The jobs that are being cancelled.
        payers: The job whose budget the calls of a child spend.
    """

    world: World
    report_violation: Callable[[str], None]
    caps: dict[str, int] = field(default_factory=dict)
    allowed: Counter[str] = field(default_factory=Counter)
    cancelling: set[str] = field(default_factory=set)
    payers: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, Answer]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    last_seen: dict[str, float] = field(default_factory=dict)

    def check_job(self, job_pk: str, new: dict[str, Any]) -> None:
        """Note the budget of a submit, and whether the job is being cancelled."""
        if new["status"] == JobStatus.CANCELLING:
            self.cancelling.add(job_pk)
        else:
            self.cancelling.discard(job_pk)
        if "root_job" in new:
            above = job_pk.rpartition("#J#")[0]
            self.payers[job_pk] = f"{above}#J#{new['root_job']}"
        elif "budget_tokens" in new:
            self.caps[job_pk] = max(new["budget_tokens"], self.caps.get(job_pk, 0))

    def check_write(self, change: Change) -> None:
        """Check a write to a budget, and note the cap that an operator has set."""
        if change.new is None:
            self.report_violation(f"I21: the budget of {change.pk} was deleted")
            return
        new = read_budget(from_item(change.new))
        old = read_budget(from_item(change.old)) if change.old else None
        if new.seq != (old.seq if old else 0) + 1:
            self.report_violation(f"I21: {change.pk} moved to {new.seq}")
        if new.operator.tokens is not None:
            highest = max(new.operator.tokens, self.caps.get(change.pk, 0))
            self.caps[change.pk] = highest
        if change.sk == keys.BUDGET_SK and old and new.recounts == old.recounts:
            self.check_sum(change.pk, old, new)

    def check_sum(self, job_pk: str, old: Any, new: Any) -> None:
        """Check that no write reserves more than the cap leaves."""
        before, after = (
            each.spent.tokens + sum(s.amount.tokens for s in each.slices.values())
            for each in (old, new)
        )
        if after > max(self.caps[job_pk] + self.allowed[job_pk], before):
            unknown = set(new.slices) - set(old.slices)
            # A frozen worker comes back after its slice was recounted.
            if not (unknown and old.recounts):
                self.report_violation(f"I21: {job_pk} reserved {after} of the cap")

    def check_request(self, call: OutgoingCall) -> None:
        """Note a call that does not wait for the budget: it is only counted."""
        job_pk = keys.job_pk(call.scope.tenant, call.scope.job)
        undoes = keys.is_compensation_stage(call.scope.stage)
        if undoes or job_pk in self.cancelling or call.dependency.lookup:
            self.allowed[self.payers.get(job_pk, job_pk)] += call.estimate

    def check_answer(self, call: OutgoingCall, owner: str, value: Any) -> None:
        """Count an answer that a living worker has received.

        `owner`: the worker that has the claim of the chunk.
        """
        job_pk = keys.job_pk(call.scope.tenant, call.scope.job)
        job_pk = self.payers.get(job_pk, job_pk)
        process = PROCESS.get(None)
        if job_pk not in self.caps or not call.estimate:
            return
        tokens = tokens_of(call, value)
        self.allowed[job_pk] += max(0, tokens - call.estimate)
        now = self.world.loop.moment
        if process is not None:
            self.last_seen[process.name] = now
        answers = self.answers[job_pk]
        is_late = process is not None and process.name != owner
        if not is_late or call.identity not in answers:
            counted = min(tokens, call.estimate)
            answers[call.identity] = Answer(process, now, counted, is_late)
        used = sum(a.tokens for a in answers.values() if self.is_recorded(a))
        if used > self.caps[job_pk] + self.allowed[job_pk]:
            self.report_violation(
                f"I21: {job_pk} used {used} of {self.caps[job_pk]} tokens"
            )

    def is_recorded(self, answer: Answer) -> bool:
        """Return whether the record must have an answer: its worker lived on."""
        process = answer.process
        if answer.is_late:
            return False
        if process is None or not process.dead:
            return True
        return answer.at < self.last_seen[process.name] - UNRECORDED_S


def tokens_of(call: OutgoingCall, value: Any) -> int:
    """Return the tokens of an answer; its estimate, if the usage does not know them."""
    usage = call.dependency.usage
    if usage is None:
        return call.estimate
    with suppress(Exception):  # the pipeline's own error: only the bill lacks it
        found = usage(value)
        return (found.tokens_in + found.tokens_out) or call.estimate
    return call.estimate
