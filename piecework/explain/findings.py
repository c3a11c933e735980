"""The table of findings: each cause for which a job does not end has one row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final


class Rank(IntEnum):
    """How a finding is ranked; the lowest comes first.

    Findings of one rank are ordered by their chunks. Those that block the whole job
    keep the order of the table: a chunk meets the obstacles in that order.
    """

    #: The whole job waits for it.
    BLOCKS_JOB = 1
    #: It does not end by itself: an operator acts.
    NEEDS_OPERATOR = 2
    #: It ends by itself.
    PASSES = 3
    #: The job does not wait for it.
    NOTE = 4


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table.

    Attributes:
        cause: When the finding is reported.
        helps: What an operator does.
        command: The command that helps; `{name}` is filled in.
        intended: Whether an operator or the pipeline wants the job to wait. Such a job
            is not stuck.
    """

    code: str
    rank: Rank
    cause: str
    helps: str
    command: str
    intended: bool = False


#: Starts a worker; MODULE is the operator's.
START: Final = "piecework worker --pipelines MODULE"
WAITING: Final = "piecework chunks list {job} --status WAITING"

FINDINGS: Final = {
    kind.code: kind
    for kind in (
        Kind(
            "submit.unfinished",
            Rank.BLOCKS_JOB,
            "A submit, a retry or a redrive stopped before it had written and sent all "
            "chunks.",
            "A reconciler finishes it within a minute. Repeat the command, or run a "
            "reconciler.",
            "piecework reconcile",
        ),
        Kind(
            "job.paused",
            Rank.BLOCKS_JOB,
            "An operator paused the job.",
            "Remove the cause of the pause, then resume the job.",
            "piecework jobs resume {job}",
            intended=True,
        ),
        Kind(
            "pipeline.paused",
            Rank.BLOCKS_JOB,
            "An operator paused the pipeline of the job.",
            "Remove the cause of the pause, then resume the pipeline.",
            "piecework pipelines resume {pipeline}",
            intended=True,
        ),
        Kind(
            "parent.paused",
            Rank.BLOCKS_JOB,
            "The job whose stage started this one is paused.",
            "End the pause of the parent: this job goes on with it.",
            "piecework jobs resume {parent}",
            intended=True,
        ),
        Kind(
            "job.budget_spent",
            Rank.BLOCKS_JOB,
            "The budget of the job is spent: the job is paused, or its join waits.",
            "Raise the budget: the job then continues from its checkpoints.",
            "piecework jobs set-budget {job} --budget-{unit} N",
            intended=True,
        ),
        Kind(
            "tenant.budget_spent",
            Rank.BLOCKS_JOB,
            "The daily budget of the tenant is spent: the job is paused, or its join "
            "waits.",
            "Raise the daily budget, or wait: the job continues when the next day "
            "begins in UTC.",
            "piecework budgets set {tenant} --daily-{unit} N",
            intended=True,
        ),
        Kind(
            "workers.none",
            Rank.BLOCKS_JOB,
            "No worker of the deployment has reported in time, and none owns a chunk.",
            "Start a worker.",
            START,
        ),
        Kind(
            "workers.pipeline_missing",
            Rank.BLOCKS_JOB,
            "Workers run, but none of them has the pipeline of the job.",
            "Start a worker with the module of the pipeline.",
            START,
        ),
        Kind(
            "workers.version_missing",
            Rank.BLOCKS_JOB,
            "The job is pinned to a code version, and no worker with its pipeline has "
            "that version.",
            "Start a worker of that version. Or unpin the job: then the newest code "
            "goes on.",
            "piecework jobs unpin {job}",
        ),
        Kind(
            "workers.queue_missing",
            Rank.BLOCKS_JOB,
            "Workers have the pipeline of the job, but none of them receives from the "
            "queue of the job: the pipeline had another queue at the submit.",
            "Start a worker for this queue, until its jobs have ended.",
            f"{START} --queue {{queue}}",
        ),
        Kind(
            "workers.busy",
            Rank.BLOCKS_JOB,
            "No chunk of the job runs, because every worker with its pipeline is full "
            "of chunks of other jobs.",
            "Wait, or start more workers.",
            START,
        ),
        Kind(
            "tenant.capped",
            Rank.PASSES,
            "The fleet runs as many chunks of the tenant at once as its cap allows.",
            "Wait, or raise the cap of the tenant.",
            "piecework limits set tenant:{tenant} --concurrent N",
        ),
        Kind(
            "version.newer_needed",
            Rank.NEEDS_OPERATOR,
            "A newer version wrote the chunks, and only older workers received them.",
            "Start workers of the newer version.",
            START,
        ),
        Kind(
            "version.safe_needed",
            Rank.NEEDS_OPERATOR,
            "The pipeline has changed so that its new version must not go on with the "
            "chunks, or it lacks their stage. They wait for another version, ten times "
            "in about half an hour, and spend no attempt. Then they are dead letters.",
            "Run workers of the version before again, or of one that keeps what the "
            "chunk names. Or let the new code go on: the command says what that does. "
            "A chunk whose stage is gone needs a version that has it.",
            "piecework jobs accept-changes {job} --dry-run",
        ),
        Kind(
            "join.failed",
            Rank.NEEDS_OPERATOR,
            "The join of the job is a dead letter.",
            "Correct the cause, then redrive the join.",
            "piecework dlq show {job} join",
        ),
        Kind(
            "dead_letters.left",
            Rank.NEEDS_OPERATOR,
            "The job has ended, and some of its dead letters are open.",
            "Correct the causes, then redrive or discard the dead letters.",
            "piecework dlq stats --job {job}",
        ),
        Kind(
            "effects.in_doubt",
            Rank.NEEDS_OPERATOR,
            "The job has ended, and effects of its chunks are in doubt. A chunk with a "
            "result may have left one, too.",
            "Look into the other system, then record what you have found.",
            "piecework effects list {job}",
        ),
        Kind(
            "dependency.paused",
            Rank.NEEDS_OPERATOR,
            "An operator has paused a dependency, and chunks need it.",
            "Remove the cause of the pause, then resume the dependency.",
            "piecework limits resume {dependency}",
            intended=True,
        ),
        Kind(
            "order.stopped",
            Rank.NEEDS_OPERATOR,
            "A dead letter stops its order key, and later chunks of the key wait.",
            "Discard the dead letter, and the key goes on without its chunk. Or wait "
            "for the end of the job, then redrive it: the later chunks follow it.",
            "piecework dlq list --job {job}",
        ),
        Kind(
            "breaker.open",
            Rank.PASSES,
            "Too many calls to a dependency failed, so its circuit breaker is open.",
            "Restore the dependency. The chunks continue after the next probe that is "
            "answered.",
            "piecework explain-code {error_code}",
        ),
        Kind(
            "limit.reached",
            Rank.PASSES,
            "Chunks wait because a dependency allows no more calls now: by its limits, "
            "or because it answered that it received too many.",
            "Wait, or raise the limit if the dependency allows more.",
            "piecework limits set {dependency} --requests-per-minute N",
        ),
        Kind(
            "lane.full",
            Rank.PASSES,
            "Chunks wait for room in the cheap lane of a model. Each goes direct once "
            "it has waited as long as the lane declares.",
            "Wait, or submit such a job with --lane direct: it pays the full price.",
            WAITING,
            intended=True,
        ),
        Kind(
            "batch.waiting",
            Rank.PASSES,
            "Chunks wait for batches, which answer within hours for less. Each goes "
            "direct once it has waited as long as the lane declares.",
            "Wait, or pay the full price with `piecework batches direct`.",
            "piecework batches list",
            intended=True,
        ),
        Kind(
            "call.in_progress",
            Rank.PASSES,
            "Chunks wait for the end of an equal call that another chunk makes.",
            "Wait: they get its answer, or make the call after its failure.",
            WAITING,
        ),
        Kind(
            "retry.waiting",
            Rank.PASSES,
            "Chunks failed with an error that may pass, and wait for their next "
            "attempt.",
            "Wait, or read the errors of the chunks.",
            WAITING,
        ),
        Kind(
            "answer.waiting",
            Rank.NEEDS_OPERATOR,
            "Stages ask a person, and wait for the answer.",
            "Answer the questions; without an answer each ends at its time.",
            "piecework approvals list --job {job}",
            intended=True,
        ),
        Kind(
            "timer.waiting",
            Rank.PASSES,
            "Stages sleep until a moment that the pipeline chose.",
            "Wait; the chunks use no worker meanwhile.",
            WAITING,
            intended=True,
        ),
        Kind(
            "child.waiting",
            Rank.PASSES,
            "Stages map rows through another pipeline, and wait for the child jobs.",
            "See why a child goes on or not; the chunks use no worker meanwhile.",
            "piecework jobs explain {child}",
            intended=True,
        ),
        Kind(
            "aws.unavailable",
            Rank.PASSES,
            "AWS did not answer the workers of these chunks, or refused them.",
            "Check the access of the workers, then wait.",
            "piecework doctor",
        ),
        Kind(
            "worker.exhausted",
            Rank.PASSES,
            "The workers of these chunks ran out of memory, disk space, file handles, "
            "threads or processes.",
            "Give the workers more, or lower `PIECEWORK_MAX_CHUNKS`. A worker that is "
            "short of them several times in a row ends with exit code 9.",
            "piecework explain-code runtime.worker.exhausted",
        ),
        Kind(
            "effects.in_flight",
            Rank.PASSES,
            "A worker was lost in a call that is not made twice. Its request may still "
            "be executed, so the next worker waits for the time-out of the call.",
            "Wait. Then the worker asks the provider, or the effect is in doubt and "
            "its chunk a dead letter.",
            "piecework effects list {job}",
        ),
        Kind(
            "lease.expiring",
            Rank.PASSES,
            "A worker no longer renews its leases: it died, froze or was cut off.",
            "Wait: another worker takes the chunks over after their leases expire.",
            "piecework chunks list {job} --status RUNNING",
        ),
        Kind(
            "chunks.unclaimed",
            Rank.PASSES,
            "Chunks are due and a worker with free slots runs, but it did not receive "
            "their messages.",
            "A reconciler sends the messages again.",
            "piecework reconcile",
        ),
        Kind(
            "join.waiting",
            Rank.PASSES,
            "All chunks have ended, and the join waits for its next attempt.",
            "Wait, or read the errors of the join.",
            "piecework chunks show {job} join",
        ),
        Kind(
            "cancel.unfinished",
            Rank.PASSES,
            "The job is cancelled, and some of its chunks have not ended yet.",
            "Wait: chunks at or after their pivot run to their end.",
            "piecework jobs watch {job}",
        ),
        Kind(
            "job.progressing",
            Rank.PASSES,
            "Workers run chunks of the job, or are about to.",
            "Wait.",
            "piecework jobs watch {job}",
        ),
        Kind(
            "retry.running",
            Rank.NOTE,
            "Chunks run again at the stage at which their last attempt failed.",
            "Wait, or read the code. If the time is too short, raise `timeout` of "
            "the dependency or `PIECEWORK_STALL_TIMEOUT_S`, or pause the job.",
            "piecework explain-code {error_code}",
        ),
        Kind(
            "dead_letters.open",
            Rank.NOTE,
            "Some chunks are dead letters. Only chunks of the same order key wait for "
            "them.",
            "Correct the causes; redrive the dead letters after the end of the job.",
            "piecework dlq stats --job {job}",
        ),
        Kind(
            "dead_letters.unread",
            Rank.NOTE,
            "The job has many dead letters. Those that were read are closed; some were "
            "not read.",
            "List the open ones: chunks may wait for them.",
            "piecework dlq list --job {job}",
        ),
        Kind(
            "order.waiting",
            Rank.NOTE,
            "Chunks wait for an earlier chunk of their order key. They run one after "
            "another.",
            "Wait. More keys, or shorter chunks, let more of them run at once.",
            "piecework chunks list {job} --status PENDING",
        ),
        Kind(
            "limit.used",
            Rank.NOTE,
            "The limits of a dependency are fully used. Calls wait inside the workers.",
            "Wait, or raise the limit if the dependency allows more.",
            "piecework limits list",
        ),
        Kind(
            "parent.waiting",
            Rank.NOTE,
            "A stage of another job started this job, and waits for its end.",
            "See what else that job waits for.",
            "piecework jobs explain {parent}",
        ),
        Kind(
            "version.changed",
            Rank.NOTE,
            "The pipeline has changed since the submit. Its chunks go on, because the "
            "change is safe for what each of them has done.",
            "Read what has changed: the results may be of several versions.",
            "piecework results {job} --with version",
        ),
        Kind(
            "call.key.unstable",
            Rank.NOTE,
            "A repeated stage did not find its stored answers and paid again, or "
            "repeated an effect: an argument of the call differs in each run, such as "
            "a time or a random id.",
            "Take the argument from the payload or from the answer of another call, or "
            "leave it out.",
            "piecework explain-code call.key.unstable",
        ),
        Kind(
            "webhook.failed",
            Rank.NOTE,
            "A webhook of the tenant did not accept an event in nine attempts.",
            "Repair the receiver, then send its failed events again.",
            "piecework webhooks show {webhook}",
        ),
        Kind(
            "fleet.unreadable",
            Rank.NOTE,
            "The record of workers, breakers and limits cannot be read, so causes in "
            "it are not found.",
            "Use the role of an operator of all tenants.",
            "piecework doctor",
        ),
        Kind(
            "job.ended",
            Rank.NOTE,
            "The job has ended.",
            "Read its results.",
            "piecework results {job}",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause for which a job has not ended.

    Attributes:
        kind: Its row in the table.
        message: What happened, in one sentence.
        chunks: The number of chunks that wait for it.
        exact: Whether all chunks were read; else the number is an estimate.
        since, until: ISO 8601; empty: not known.
        command: The command that helps.
    """

    kind: Kind
    message: str
    chunks: int
    exact: bool
    since: str
    until: str
    command: str

    @property
    def document(self) -> dict[str, Any]:
        """The finding as the command line and the client show it."""
        facts = {
            "code": self.kind.code,
            "message": self.message,
            "chunks": self.chunks,
            "exact": self.exact,
            "since": self.since,
            "until": self.until,
            "next": self.command,
        }
        return {name: value for name, value in facts.items() if value != ""}
