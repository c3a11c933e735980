"""The registry of error codes: the cause of each, and the next step for the user.

A code has the form `layer.kind.detail`. Released codes are never renamed, because
tables, alarms and users' programs contain them. All rows are in one table, `ROWS`,
because a reader looks a code up here. The layers:

    llm       a call to a model               submit    submitting a job
    tool      a call to any other service     job       a job as a whole
    aws       SQS, DynamoDB, S3               redrive   redriving dead letters
    runtime   the worker and its state        config    settings
    input     the input of `submit`           embedded  the emulator on this machine
    pipeline  the user's declaration          cli       the command line

    infra         stacks on AWS               webhook   telling other systems
    idempotency   functions outside a pipeline, wrapped with `idempotent`
    approval      questions that stages ask people
    run           what `piecework run` remembers
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ErrorClass(StrEnum):
    """The class of an error: it alone decides the recovery."""

    TRANSIENT = "transient"  # retry after a delay
    PERMANENT = "permanent"  # a retry cannot help
    SEMANTIC = "semantic"  # a valid answer with the wrong content: do not only repeat
    POLICY = "policy"  # refused by a rule or a quota: the same input is refused again
    STATE = "state"  # our own state was lost: restore it, then retry


BEHAVIOUR: Final[Mapping[ErrorClass, str]] = MappingProxyType(
    {
        ErrorClass.TRANSIENT: (
            "retries the call with full jitter within its budgets, then the chunk"
        ),
        ErrorClass.PERMANENT: "compensates the chunk and writes a dead letter",
        ErrorClass.SEMANTIC: (
            "runs the stage's `replan` hook with the code; without a hook as permanent"
        ),
        ErrorClass.POLICY: (
            "calls the next `fallback`; without a fallback as permanent"
        ),
        ErrorClass.STATE: "restores the last checkpoint and retries the chunk",
    }
)


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code with its class, its cause and the next step for the user.

    A pipeline declares its own in `Pipeline(codes=[…])`, and raises an error with it:
    `PermanentError("The card was declined.", code=CARD_DECLINED)`.

    Attributes:
        code: `layer.kind.detail` in lower case.
        error_class: What an error with this code usually is. The type of the raised
            error decides.
        cause: One sentence: what has happened.
        recovery: What a person does next; a dead letter of the code shows both.
    """

    code: str
    error_class: ErrorClass = ErrorClass.PERMANENT
    cause: str = ""
    recovery: str = ""

    def __str__(self) -> str:
        """Return the code as rows, events and messages have it."""
        return self.code

    @property
    def layer(self) -> str:
        """The part of the system in which the error occurred."""
        return self.code.partition(".")[0]


TRANSIENT: Final = ErrorClass.TRANSIENT
PERMANENT: Final = ErrorClass.PERMANENT
SEMANTIC: Final = ErrorClass.SEMANTIC
POLICY: Final = ErrorClass.POLICY
STATE: Final = ErrorClass.STATE


_RETRIED: Final = (
    "Wait: the call is retried. If the error persists, lower "
    "`PIECEWORK_MAX_CALLS_IN_FLIGHT` or wait longer, then run "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)

_CORRECT: Final = (
    "Read the envelope with `piecework dlq show JOB CHUNK`, correct the request, then "
    "run `piecework dlq redrive --job JOB --yes --reason …`."
)

_CERTIFICATE: Final = (
    "Compare the clock of this machine. If a proxy or the service has a CA of its own, "
    "give the workers its bundle and restart them. Then run `piecework dlq redrive "
    "--job JOB --yes --reason …`."
)

_CREDENTIALS: Final = (
    "Give the workers valid credentials for this service and restart them, then run "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)

_DETAILS: Final = (
    (
        "http.400_bad_request",
        PERMANENT,
        "The {service} could not parse the request.",
        _CORRECT,
    ),
    (
        "http.401_unauthenticated",
        PERMANENT,
        "The {service} did not accept the credentials.",
        _CREDENTIALS,
    ),
    (
        "http.403_forbidden",
        PERMANENT,
        "The {service} authenticated the caller and does not allow the call.",
        _CREDENTIALS,
    ),
    (
        "http.404_not_found",
        PERMANENT,
        "The {service} has no resource at this address.",
        _CORRECT,
    ),
    (
        "http.408_timeout",
        TRANSIENT,
        "The {service} timed out while it read or processed the request.",
        _RETRIED,
    ),
    (
        "http.409_conflict",
        PERMANENT,
        "The request conflicts with the state of the {service}.",
        _CORRECT,
    ),
    (
        "http.413_too_large",
        PERMANENT,
        "The request is larger than the {service} accepts.",
        "Split the input into smaller chunks and submit it again.",
    ),
    (
        "http.422_unprocessable",
        PERMANENT,
        "The {service} found the content of the request invalid.",
        _CORRECT,
    ),
    (
        "http.425_too_early",
        TRANSIENT,
        "The {service} does not process the request yet.",
        _RETRIED,
    ),
    (
        "http.429_rate_limited",
        TRANSIENT,
        "The {service} received more calls than it allows.",
        _RETRIED,
    ),
    (
        "http.4xx_rejected",
        PERMANENT,
        "The {service} rejected the request with another 4xx status.",
        _CORRECT,
    ),
    (
        "http.500_server_error",
        TRANSIENT,
        "The {service} had an internal failure.",
        _RETRIED,
    ),
    (
        "http.502_bad_gateway",
        TRANSIENT,
        "A proxy in front of the {service} received no valid answer from it.",
        _RETRIED,
    ),
    (
        "http.503_unavailable",
        TRANSIENT,
        "The {service} is overloaded or temporarily down.",
        _RETRIED,
    ),
    (
        "http.504_gateway_timeout",
        TRANSIENT,
        "A proxy in front of the {service} received no answer in time.",
        _RETRIED,
    ),
    (
        "http.529_overloaded",
        TRANSIENT,
        "The {service} is overloaded for all its clients.",
        _RETRIED,
    ),
    (
        "http.5xx_failed",
        TRANSIENT,
        "The {service} failed with another 5xx status.",
        _RETRIED,
    ),
    (
        "http.unexpected_status",
        PERMANENT,
        "The {service} answered with a status that is neither success, 4xx nor 5xx.",
        _CORRECT,
    ),
    (
        "http.malformed_body",
        TRANSIENT,
        "The answer of the {service} is truncated, or the call cannot decode it.",
        _RETRIED,
    ),
    (
        "request.invalid",
        PERMANENT,
        "The client does not send the request: an address or a header is not valid.",
        _CORRECT,
    ),
    (
        "connection.failed",
        TRANSIENT,
        "The connection to the {service} failed or was reset.",
        _RETRIED,
    ),
    (
        "connection.untrusted",
        PERMANENT,
        "The certificate of the {service} is not valid here; the message says why.",
        _CERTIFICATE,
    ),
    (
        "connection.timeout",
        TRANSIENT,
        "The {service} did not answer within the timeout of the call.",
        _RETRIED,
    ),
)


#: The SDKs of model providers retry a conflict: a lock on their side timed out.
_RETRIED_BY_MODELS: Final = frozenset({"http.409_conflict"})


def http_rows(layer: str, *, service: str) -> tuple[Code, ...]:
    """Return the rows of one layer; the sentences name the `service`."""
    retried = _RETRIED_BY_MODELS if layer == "llm" else frozenset[str]()
    return tuple(
        Code(
            f"{layer}.{detail}",
            TRANSIENT if detail in retried else error_class,
            cause.format(service=service),
            recovery,
        )
        for detail, error_class, cause, recovery in _DETAILS
    )


SHOW: Final = "`piecework dlq show JOB CHUNK`"

REDRIVE: Final = "`piecework dlq redrive --job JOB --yes --reason …`"

_DRY_RUN: Final = "then check with `piecework submit PIPELINE SOURCE --dry-run`."


#: Every code, layer by layer, in the order of the documentation page: what a running
#: chunk meets comes first.
ROWS: Final = (
    # llm
    *http_rows("llm", service="model provider"),
    Code(
        "llm.batch.ended",
        PERMANENT,
        "The batch has ended, so nothing of it can be cancelled or go direct.",
        "See its end with `piecework batches show BATCH`.",
    ),
    Code(
        "llm.batch.not_found",
        PERMANENT,
        "No batch of the tenant that is open, or has ended lately, has this id.",
        "List the batches with `piecework batches list --all`.",
    ),
    Code(
        "llm.batch.results_gone",
        PERMANENT,
        "The provider has deleted the results of a batch before they were read, as it "
        "does after some 30 days.",
        f"Run {REDRIVE}: the calls are asked, and paid for, again.",
    ),
    Code(
        "llm.context.overflow",
        PERMANENT,
        "The prompt is longer than the model's context.",
        "Split the input into smaller chunks and submit it again.",
    ),
    Code(
        "llm.lane.no_room",
        TRANSIENT,
        "The provider has no room in its cheap tier, and refused the request unread.",
        "Wait: the chunk is deferred without spending an attempt, and its call goes "
        "direct after `Lane.flex(within=…)`. `piecework submit PIPELINE SOURCE --lane "
        "direct` does not wait.",
    ),
    Code(
        "llm.lane.unsupported",
        PERMANENT,
        "The provider does not serve this model in the tier of its lane.",
        "Declare `Model(…, lane=Lane.direct())`, or a model that has the tier, deploy "
        f"the workers, then run {REDRIVE}.",
    ),
    Code(
        "llm.model.failed",
        TRANSIENT,
        "The model failed while it processed the request.",
        "Wait: the call is retried. If the error persists, use another model.",
    ),
    Code(
        "llm.model.not_ready",
        TRANSIENT,
        "The model is still loading.",
        "Wait: the call is retried until the model is ready.",
    ),
    Code(
        "llm.output.invalid",
        SEMANTIC,
        "The model's answer does not have the content that the stage requires. Or the "
        "model stopped for a reason that is not the end of an answer.",
        "Read the error with `piecework dlq show JOB CHUNK`, change the prompt, "
        "then run `piecework dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "llm.output.truncated",
        SEMANTIC,
        "The model's answer reached the limit of output tokens and was cut off.",
        "Request less in one call or allow more tokens, then run `piecework dlq "
        "redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.content_filtered",
        POLICY,
        "A content filter of the provider stopped the prompt or the answer.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
    Code(
        "llm.policy.quota_exceeded",
        POLICY,
        "The account has used up its quota for this model.",
        "Raise the quota or use another model, then run `piecework dlq redrive "
        "--job JOB --yes --reason …`.",
    ),
    Code(
        "llm.policy.refusal",
        POLICY,
        "The model refused to process this input.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
    # tool
    *http_rows("tool", service="service"),
    Code(
        "tool.database.busy",
        TRANSIENT,
        "A database is locked, busy or cannot be reached, or it ended a transaction "
        "for another one.",
        _RETRIED,
    ),
    Code(
        "tool.output.invalid",
        SEMANTIC,
        "The service's answer has the right form and invalid content.",
        "Read the error with `piecework dlq show JOB CHUNK`, then run `piecework "
        "dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "tool.policy.refusal",
        POLICY,
        "The service refused the request by a rule or a quota of its own.",
        "Review the chunk with `piecework dlq show JOB CHUNK`.",
    ),
    # aws
    Code(
        "aws.access.denied",
        PERMANENT,
        "The credentials do not allow this request.",
        "Compare the role with the permissions in `infra/`, then run `piecework "
        "doctor`. Chunks wait without spending an attempt. S3 also answers so for a "
        "missing object if the role lacks `s3:ListBucket`.",
    ),
    Code(
        "aws.clock.skewed",
        TRANSIENT,
        "The clock of this machine differs too much from that of AWS.",
        "Set the clock, such as with `chronyc makestep`. Chunks wait without spending "
        "an attempt.",
    ),
    Code(
        "aws.condition.refused",
        STATE,
        "A conditional write found the record in an unexpected state.",
        "Do nothing: the record is read again. `piecework chunks list JOB` shows it.",
    ),
    Code(
        "aws.credentials.expired",
        TRANSIENT,
        "The credentials have expired.",
        "Sign in again, or restart the process if they come from its environment. A "
        "role renews them by itself. Chunks wait without spending an attempt.",
    ),
    Code(
        "aws.credentials.invalid",
        PERMANENT,
        "AWS did not accept the credentials.",
        "Renew them (profile, role or `AWS_*` variables), then run `piecework doctor`.",
    ),
    Code(
        "aws.credentials.missing",
        PERMANENT,
        "No credentials for AWS were found.",
        "To work on this machine, run `piecework up`. Otherwise set a profile or "
        "a role, then run `piecework doctor`.",
    ),
    Code(
        "aws.credentials.unavailable",
        TRANSIENT,
        "The source of the credentials does not answer: a role, a process or a "
        "container.",
        "Wait: the request is retried. If the error persists, run `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.timeout",
        TRANSIENT,
        "AWS did not answer in time.",
        "Wait: the request is retried. If the error persists, run `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.unreachable",
        TRANSIENT,
        "The connection to the AWS endpoint failed.",
        "Run `piecework doctor`. On this machine, `piecework up` starts the emulator.",
    ),
    Code(
        "aws.endpoint.untrusted",
        PERMANENT,
        "The certificate of the AWS endpoint is not valid for this machine. The "
        "message says why.",
        "Compare the clock of this machine. If a proxy has a CA of its own, set "
        "AWS_CA_BUNDLE to its file. Chunks wait without spending an attempt.",
    ),
    Code(
        "aws.key.unusable",
        PERMANENT,
        "The KMS key that encrypts the data is disabled, deleted or not allowed.",
        "Enable the key or repair its policy. Chunks wait for it without spending an "
        "attempt; `piecework jobs show JOB` counts them.",
    ),
    Code(
        "aws.quota.exceeded",
        POLICY,
        "The account has reached a limit of this AWS service.",
        "Raise the limit in Service Quotas, then run `piecework doctor`.",
    ),
    Code(
        "aws.request.damaged",
        TRANSIENT,
        "AWS received other bytes than were sent.",
        "Wait: the request is retried. If the error persists, look at the proxies "
        "between this machine and AWS.",
    ),
    Code(
        "aws.request.invalid",
        PERMANENT,
        "AWS found the request invalid.",
        "Compare the versions with `piecework doctor`, and report the error.",
    ),
    Code(
        "aws.request.rejected",
        PERMANENT,
        "AWS rejected the request with a code that is not in this table.",
        "Read `provider_code` in the envelope, then run `piecework doctor`.",
    ),
    Code(
        "aws.resource.not_found",
        PERMANENT,
        "A queue, table, bucket or object does not exist.",
        "Run `piecework doctor`. `piecework up` or a deployment of "
        "`infra/data.yaml` creates the resources.",
    ),
    Code(
        "aws.queue.not_deployed",
        PERMANENT,
        "A pipeline declares a queue that the deployment does not have.",
        "Create it: `piecework up --queue NAME`, or on AWS `piecework infra deploy "
        "--parameter Queue1=NAME`.",
    ),
    Code(
        "aws.service.throttled",
        TRANSIENT,
        "The AWS service received more requests than it allows.",
        "Wait: the request is retried. If the error persists, run fewer workers.",
    ),
    Code(
        "aws.service.unavailable",
        TRANSIENT,
        "The AWS service had an internal failure, or the answer was not of AWS.",
        "Wait: the request is retried. If the error persists, check the AWS "
        "status page. If the message names a proxy, check the way to AWS.",
    ),
    Code(
        "aws.transaction.conflict",
        TRANSIENT,
        "Other transactions held one of the same items for half a minute. Nothing was "
        "written.",
        "Repeat a command: it continues where it stopped. A worker tries again by "
        "itself and spends no attempt. If this lasts, run fewer commands on the same "
        "job at a time, and look for another program that writes to the tables.",
    ),
    # runtime
    Code(
        "runtime.answer.invalid",
        PERMANENT,
        "The stored answer of a question does not match the model of its stage. A "
        "deployment has changed the model, or only the stored schema has checked the "
        "answer. That schema has none of your validators.",
        f"Run {REDRIVE}: the question is asked again, unless a model is deployed that "
        "accepts the stored answer.",
    ),
    Code(
        "runtime.attempts.exhausted",
        PERMANENT,
        "The chunk has used all its attempts.",
        f"Read the error history with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.breaker.open",
        TRANSIENT,
        "Too many of the fleet's calls to a dependency failed. Its circuit breaker is "
        "open, so a call was not made.",
        "Wait: the chunk is deferred without spending an attempt, for "
        "`PIECEWORK_MAX_DEFERRED_S` at most. `piecework jobs show JOB` shows until "
        "when.",
    ),
    Code(
        "runtime.deferral.exhausted",
        PERMANENT,
        "A dependency could not be called for so long that the chunk does not wait "
        "any longer. The message says how often it was deferred, and since when.",
        "Restore the dependency; `PIECEWORK_MAX_DEFERRED_S` and "
        f"`PIECEWORK_MAX_DEFERRALS` are the limits. Then run {REDRIVE}.",
    ),
    Code(
        "runtime.budget.retry_exhausted",
        TRANSIENT,
        "A failed call was not retried, because too many calls to its dependency fail. "
        "They have used up the worker's retry budget for it.",
        "Wait: the chunk is retried later. The message names the dependency and its "
        "last failure: `piecework chunks show JOB CHUNK`.",
    ),
    Code(
        "runtime.dependency.paused",
        TRANSIENT,
        "An operator has paused the dependency, so its call was not made.",
        "Wait: the chunk is deferred without spending an attempt. `piecework limits "
        "list` shows who paused it and why; `piecework limits resume` ends the pause.",
    ),
    Code(
        "runtime.budget.reserved",
        TRANSIENT,
        "A call found no room in the budget of its job for as long as the worker may "
        "wait. Calls in flight had reserved the rest, or a join found it spent.",
        "The chunk is deferred without spending an attempt; a join waits until "
        "`piecework jobs set-budget JOB` raises the budget.",
    ),
    Code(
        "runtime.budget.day_reserved",
        TRANSIENT,
        "A call found no room in the daily budget of its tenant for as long as the "
        "worker may wait.",
        "The chunk is deferred without spending an attempt, a join until the next day "
        "begins in UTC. `piecework budgets set TENANT` raises the budget.",
    ),
    Code(
        "runtime.budget.no_price",
        PERMANENT,
        "The job has a budget in dollars. A dependency declares no price of a call, so "
        "it was not made.",
        "Declare `Model(…, price=…)` or `Dependency(…, estimate_usd=…)`, deploy the "
        f"workers, then run {REDRIVE}.",
    ),
    Code(
        "runtime.quota.exhausted",
        TRANSIENT,
        "The limits of a dependency had no quota for a call for as long as the worker "
        "may wait.",
        "Wait: the chunk is deferred without spending an attempt. `piecework limits "
        "list` shows the limits; `piecework limits set` changes them.",
    ),
    Code(
        "runtime.quota.call_too_large",
        PERMANENT,
        "One call needs more tokens than its dependency's limit allows in a minute.",
        "Send less text or a lower `max_tokens`, or raise the limit with `piecework "
        f"limits set`, then run {REDRIVE}.",
    ),
    Code(
        "runtime.quota.estimate_failed",
        PERMANENT,
        "An estimate of a dependency raised an error, or returned no amount.",
        f"Correct the function, then run {REDRIVE}.",
    ),
    Code(
        "runtime.classifier.failed",
        PERMANENT,
        "A dependency's `classify` raised an error, or returned a value that is "
        "not a Piecework error.",
        f"Correct it, then run {REDRIVE}. `cause` names the original error.",
    ),
    Code(
        "runtime.compensation.failed",
        PERMANENT,
        "The compensation of a stage failed. The other stages were compensated.",
        f"{SHOW} names the stage and its key. `piecework dlq compensate` runs it "
        "again, or records what you did by hand.",
    ),
    Code(
        "runtime.effect.unknown",
        PERMANENT,
        "It is unknown whether a call that must not be repeated has happened.",
        "Check in the other system whether it happened. Record that with "
        f"`piecework effects resolve`, then run {REDRIVE}. `piecework effects list "
        "JOB` has the keys.",
    ),
    Code(
        "runtime.effect.void",
        STATE,
        "An effect that was recorded for this chunk has been compensated since.",
        "Wait: the stage is run again with a new key.",
    ),
    Code(
        "runtime.join.failed",
        PERMANENT,
        "The join of the job failed. The results of all chunks are stored.",
        "Read the error with `piecework jobs show JOB`, correct the cause, then "
        f"run {REDRIVE}.",
    ),
    Code(
        "runtime.lease.lost",
        STATE,
        "Another worker took over the chunk, or the lease expired without renewal.",
        "Do nothing: the worker that owns the lease continues. This worker wrote "
        "nothing more.",
    ),
    Code(
        "runtime.message.malformed",
        PERMANENT,
        "A message in the queue is damaged or does not come from Piecework.",
        "Find out what else sends to the queue. `piecework reconcile` sends the "
        "chunk's message again.",
    ),
    Code(
        "runtime.message.orphan",
        PERMANENT,
        "A message names a chunk that has no record.",
        "Run `piecework doctor` to check that queue and tables belong together.",
    ),
    Code(
        "runtime.message.schema_too_new",
        PERMANENT,
        "A message has a newer schema version and does not name its chunk.",
        "Find out what else sends to the queue. The chunk's message is sent again "
        "from its record.",
    ),
    Code(
        "runtime.object.missing",
        STATE,
        "An object in S3 that the record names does not exist.",
        "Look for a deletion or a lifecycle rule. A version of the object may still "
        "exist; restore it, then redrive the dead letter.",
    ),
    Code(
        "runtime.object.too_large",
        PERMANENT,
        "An object in S3 that the record names is larger than any that Piecework "
        "writes.",
        "Find out what replaced it and restore the version before, then run "
        f"{REDRIVE}.",
    ),
    Code(
        "runtime.payload.corrupt",
        PERMANENT,
        "The payload's SHA-256 differs from the one that was recorded at submit.",
        "Restore the object in S3, or submit the input again as a new job.",
    ),
    Code(
        "runtime.payload.invalid",
        PERMANENT,
        "The payload does not match the payload type of this worker's pipeline.",
        f"Deploy the pipeline version of the job, then run {REDRIVE}.",
    ),
    Code(
        "runtime.pipeline.unknown",
        TRANSIENT,
        "This worker does not have the pipeline that the job names.",
        "Start a worker with `piecework worker --pipelines MODULE`; the chunk waits.",
    ),
    Code(
        "runtime.record.schema_too_new",
        TRANSIENT,
        "A later version of Piecework wrote this record.",
        "Install that version and run the command again. Workers of that version "
        "continue the work.",
    ),
    Code(
        "runtime.record.unreadable",
        PERMANENT,
        "A stored item or object is not as Piecework wrote it: it was edited.",
        "Restore what the message names from a backup of the table or the bucket. "
        "The job waits for that.",
    ),
    Code(
        "submit.pin.unknown",
        PERMANENT,
        "The submit has a pin, and nothing tells the code version of the pipeline.",
        "Set `PIECEWORK_CODE_VERSION`, in the workers too, or submit without a pin.",
    ),
    Code(
        "runtime.code.pinned",
        TRANSIENT,
        "The job is pinned to a code version, and this worker has another one.",
        "Start a worker of that version, or run `piecework jobs unpin JOB`; the chunks "
        "wait.",
    ),
    Code(
        "runtime.code.changed",
        PERMANENT,
        "The pipeline has changed so that the chunk must not go on. The message says "
        "why. No worker with a safe version took the chunk in time.",
        "Run workers of the version before again, or of one that keeps what the "
        "message names. Or let the new code go on: `piecework jobs accept-changes JOB "
        "--dry-run` says what that does. Waiting chunks then go on by themselves; for "
        f"dead letters run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.blocked_loop",
        TRANSIENT,
        "A stage blocked the event loop of its process, and the process was killed.",
        "Declare the stage with `def` instead of `async def`, or await "
        "`asyncio.to_thread` around the blocking call. The event "
        "`worker.loop_blocked` has the stack.",
    ),
    Code(
        "runtime.stage.killed",
        TRANSIENT,
        "The child process of a stage died; the message names the signal or the "
        "exit code.",
        "The kernel usually sends SIGKILL when memory runs out. Correct the stage. "
        f"After the last attempt of the chunk, run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.not_found",
        PERMANENT,
        "This pipeline does not have the current stage of the chunk. No worker with "
        "that stage took the chunk in time.",
        f"Deploy a pipeline with the old stage name, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.out_of_memory",
        TRANSIENT,
        "An isolated stage used more memory than its limit.",
        "Raise its `memory_mb` or `PIECEWORK_STAGE_MEMORY_MB`, or make the chunks "
        f"smaller, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.permanent",
        PERMANENT,
        "A stage raised PermanentError without a code of its own.",
        f"Read the error with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.policy",
        POLICY,
        "A stage raised PolicyError without a code of its own.",
        f"Review the chunk with {SHOW}.",
    ),
    Code(
        "runtime.stage.semantic",
        SEMANTIC,
        "A stage raised SemanticError without a code of its own.",
        f"Read the error with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.stalled",
        TRANSIENT,
        "A stage showed no progress for `stall_timeout_s` seconds and was stopped.",
        "Call `ctx.progress()` in long loops or raise "
        f"`PIECEWORK_STALL_TIMEOUT_S`. {SHOW} shows where the stage stopped.",
    ),
    Code(
        "runtime.stage.state",
        STATE,
        "A stage raised StateError without a code of its own.",
        "Wait: the last checkpoint is restored and the stage is run again.",
    ),
    Code(
        "runtime.stage.timeout",
        TRANSIENT,
        "The chunk ran longer than `max_runtime_s` allows.",
        "Split the input into smaller chunks or raise `PIECEWORK_MAX_RUNTIME_S`, "
        f"then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.transient",
        TRANSIENT,
        "A stage raised TransientError without a code of its own.",
        f"Wait: the chunk is retried. After its last attempt, run {REDRIVE}.",
    ),
    Code(
        "runtime.call.unhandled",
        PERMANENT,
        "A call raised an exception that no rule knows, at its first try and at two "
        "further ones. An effect that may not be repeated has one try.",
        f"Read the error with {SHOW}, correct the function, or say in the "
        f"dependency's `classify` what the exception means. Then run {REDRIVE}.",
    ),
    Code(
        "runtime.pool.broken",
        TRANSIENT,
        "A process of a pool that the called function uses has died.",
        "Wait: the call is retried. If the error persists, give the worker more "
        "memory, or make a new pool after this error.",
    ),
    Code(
        "runtime.stage.unhandled",
        PERMANENT,
        "A stage raised an exception that is not known to be transient.",
        f"See its type with {SHOW}, correct the stage, then run {REDRIVE}.",
    ),
    Code(
        "runtime.state.checkpoint_corrupt",
        STATE,
        "The content of a checkpoint is not what was written.",
        "Wait: the stage before it is run again.",
    ),
    Code(
        "runtime.state.checkpoint_missing",
        STATE,
        "A checkpoint that the record names does not exist.",
        "Wait: the stages after the last existing checkpoint are run again.",
    ),
    Code(
        "runtime.value.invalid",
        PERMANENT,
        "A value inside a stage does not match its pydantic model.",
        f"See the field with {SHOW}, correct the stage, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.too_large",
        PERMANENT,
        "A function returned more than 16 MiB of JSON.",
        "Write the data to the bucket and return its address, or make smaller "
        f"chunks, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.unreadable",
        PERMANENT,
        "A stored value does not match the return annotation of its function any more.",
        f"Deploy a type that also reads the old values, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.unserialisable",
        PERMANENT,
        "A function returned a value that does not fit its annotation, or that would "
        "not come back from JSON.",
        f"Correct the place that the message names, then run {REDRIVE}.",
    ),
    Code(
        "runtime.wait.timed_out",
        PERMANENT,
        "The time of a question was over without an answer, and it has no default.",
        "Redrive the dead letter: the question is asked again. Or declare a default.",
    ),
    Code(
        "runtime.map.over_budget",
        PERMANENT,
        "The budget of the root job has less left than a child job is forecast to "
        "need. The child was not started.",
        "Raise the budget: `piecework jobs set-budget JOB --budget-usd N`. Then "
        "redrive the dead letter.",
    ),
    Code(
        "runtime.map.rows_unstable",
        PERMANENT,
        "A stage asks `ctx.map` for other rows in each run: a clock or a random value "
        "is in them.",
        "Take the value from the payload, or from a call, whose answer is stored. Then "
        "redrive the dead letter.",
    ),
    Code(
        "runtime.map.child_gone",
        PERMANENT,
        "The child job of a stage was deleted, or a job of another stage has its id.",
        "Submit the rows of the parent again, as another job.",
    ),
    Code(
        "runtime.map.row_failed",
        PERMANENT,
        "`MapResult.values` found a row of a child job that has no result.",
        "Redrive the dead letters of the child, then that of the parent. Or read "
        "`failures()` in the stage.",
    ),
    Code(
        "runtime.worker.exhausted",
        TRANSIENT,
        "The worker ran out of memory, disk space, file handles, threads or processes.",
        "Give the workers more, or lower `PIECEWORK_MAX_CHUNKS`. The chunk is deferred "
        "without spending an attempt, and runs alone from then on: if it alone uses up "
        "a process, it spends its attempts. A worker that is short of them several "
        "times in a row ends with exit code 9.",
    ),
    Code(
        "runtime.worker.no_child",
        TRANSIENT,
        "The worker could not start a child process, which isolated stages and "
        "suspects need.",
        "Read the message and the worker's log, then raise the limits of the "
        "container. The chunk is deferred without spending an attempt. A worker that "
        "fails at it several times in a row ends with exit code 9.",
    ),
    Code(
        "runtime.worker.lost",
        PERMANENT,
        "More workers lost this chunk than `max_takeovers` allows: each died, froze "
        "or was cut off.",
        f"Check the workers' logs for memory limits and crashes, then run {REDRIVE}.",
    ),
    Code(
        "runtime.order.stopped",
        PERMANENT,
        "The job ended while the order key of the chunk was stopped by a dead letter "
        "of an earlier chunk.",
        f"Run {REDRIVE} for that dead letter: it also runs the chunks behind it. Or "
        "discard it, then run `piecework jobs retry JOB`.",
    ),
    # input
    Code(
        "input.chunks.too_many",
        PERMANENT,
        "The input has more chunks than one job may have.",
        "Submit it in parts, or make the chunks larger.",
    ),
    Code(
        "input.directory.empty",
        PERMANENT,
        "The directory has no file of a supported kind.",
        "Put .md, .txt, .docx or .pdf files into it, or name one file.",
    ),
    Code(
        "input.file.empty",
        PERMANENT,
        "The file has no text.",
        "Check that it is the right file. A scanned PDF needs text recognition first.",
    ),
    Code(
        "input.file.encrypted",
        PERMANENT,
        "The file is encrypted.",
        "Save it without a password and submit that file.",
    ),
    Code(
        "input.file.too_large",
        PERMANENT,
        "The file is larger than the limit for one document.",
        "Split it into several files, or submit a .jsonl file, which is streamed.",
    ),
    Code(
        "input.file.too_slow",
        PERMANENT,
        "Reading the document took more CPU time than the limit.",
        "Open it in a viewer and print it to a new PDF, or divide it.",
    ),
    Code(
        "input.file.unreadable",
        PERMANENT,
        "The file cannot be opened, or its content is damaged.",
        "Check its permissions, and check that its own program opens it.",
    ),
    Code(
        "input.file.unsupported",
        PERMANENT,
        "Piecework cannot read this kind of file.",
        "Save it as .md, .txt, .docx or .pdf, or rows as .csv, .jsonl or .parquet.",
    ),
    Code(
        "input.label.failed",
        PERMANENT,
        "The pipeline's `label` raised an error, or did not return a text.",
        "Correct it; it must return a short text for any payload.",
    ),
    Code(
        "input.order.failed",
        PERMANENT,
        "The pipeline's `ordered_by` raised an error.",
        "Correct it; it must accept any payload.",
    ),
    Code(
        "input.order.invalid",
        PERMANENT,
        "The pipeline's `ordered_by` returned another value than a text of 1 to 256 "
        "characters, an integer or None.",
        "Return an identifier, such as the number of an account.",
    ),
    Code(
        "input.rows.empty",
        PERMANENT,
        "The input has no rows.",
        "Write one JSON object in each line, one line for each chunk.",
    ),
    Code(
        "input.columns.unknown",
        PERMANENT,
        "A column or key of the input is read by no field of the payload.",
        f'Rename it, or permit others by `ConfigDict(extra="ignore")`, {_DRY_RUN}',
    ),
    Code(
        "input.rows.invalid_line",
        PERMANENT,
        "A row of the input does not fit the payload of the pipeline.",
        f"Correct the line that the message names, {_DRY_RUN}",
    ),
    Code(
        "input.rows.too_long_line",
        PERMANENT,
        "A row of the input is longer than one payload may be.",
        "Put large content into S3 and its address into the line.",
    ),
    Code(
        "input.payload.invalid",
        PERMANENT,
        "A chunk does not match the pipeline's payload type.",
        f"Correct the chunk that the message names, {_DRY_RUN}",
    ),
    Code(
        "input.payload.too_large",
        PERMANENT,
        "A chunk's payload is larger than the limit.",
        "Make smaller chunks, or pass a reference in place of the data.",
    ),
    Code(
        "input.s3.denied",
        PERMANENT,
        "S3 denied access to the input.",
        "Allow `s3:GetObject` on it, or use other credentials.",
    ),
    Code(
        "input.s3.unreachable",
        PERMANENT,
        "The `s3://` input cannot be read.",
        "Check bucket, key and permissions, then run `piecework doctor`.",
    ),
    Code(
        "input.source.not_found",
        PERMANENT,
        "The file, directory or object does not exist.",
        "Check the path; `-` reads JSON lines from standard input.",
    ),
    Code(
        "input.split.failed",
        PERMANENT,
        "The pipeline's `split` raised an exception.",
        f"Correct `split` for this document, {_DRY_RUN}",
    ),
    Code(
        "input.split.missing",
        PERMANENT,
        "The pipeline has no `split`, so it accepts only rows.",
        "Submit a .jsonl file, or add a `split` to the pipeline.",
    ),
    Code(
        "input.split.none",
        PERMANENT,
        "The pipeline's `split` returned no chunks for this input.",
        f"Check that the document contains what `split` expects, {_DRY_RUN}",
    ),
    # pipeline
    Code(
        "input.text.doubtful",
        PERMANENT,
        "The text in the PDF is not what a reader sees. Its fonts name other "
        "characters, or it has no spaces.",
        "Run OCR over its pages, or check the text and submit it as .txt.",
    ),
    Code(
        "pipeline.artifact.bad_name",
        PERMANENT,
        "The name of an artifact could be a path.",
        "Use only letters, digits, `.`, `-` and `_`.",
    ),
    Code(
        "pipeline.argument.indistinct",
        PERMANENT,
        "An argument of a call has content that its key cannot contain, so two calls "
        "could be taken for one. Nothing was sent.",
        "Pass text, numbers, lists, dicts, dataclasses or pydantic models; read files "
        f"and generators first. Then run {REDRIVE}.",
    ),
    Code(
        "pipeline.call.in_thread",
        PERMANENT,
        "A stage calls, sleeps or asks in a thread, such as that of a plain `def` "
        "function. Nothing was sent.",
        f"Make the stage `async def`, and await the call in it. Then run {REDRIVE}.",
    ),
    Code(
        "pipeline.call.streamed",
        PERMANENT,
        "An agent streams the answer of its model in a stage. A stream is not stored, "
        "so each run of the stage would pay for it again. Nothing was sent.",
        f"Call `agent.run` without a handler of events. Then run {REDRIVE}.",
    ),
    Code(
        "call.key.unstable",
        PERMANENT,
        "A repeated stage called a function again under another key. An argument "
        "differs in each run, such as a time or a random id. So the stored answer is "
        "not found and is paid for again, and an effect may happen twice.",
        "Pass what stays the same: a field of the payload, or the answer of another "
        "call. A test that means it passes `allow_unstable_keys=True`.",
    ),
    Code(
        "pipeline.call.indistinct",
        PERMANENT,
        "A stage called a lambda, a function in a function, or a method of an object. "
        "The key of the call could not tell it from another. Nothing was sent.",
        "Move the function to the top of its module, and pass what it needs as "
        'arguments; or declare a name: `@named_call("us.pay")`, or '
        f'`pay = named_call("us.pay")(us.pay)`. Then run {REDRIVE}.',
    ),
    Code(
        "pipeline.declaration.invalid",
        PERMANENT,
        "The pipeline's declaration breaks a rule, for example about stages, "
        "pivot or compensation.",
        "Correct the declaration at the place that the message names.",
    ),
    Code(
        "pipeline.happened.invalid",
        PERMANENT,
        "`ctx.happened` cannot be answered. It is for compensations, and without "
        "arguments it asks about the only call of a function that may have happened.",
        "Ask in a compensation. Pass the arguments of the call after its function.",
    ),
    Code(
        "pipeline.module.failed",
        PERMANENT,
        "The module of the pipeline raised an error during its import.",
        "Import it alone: `python -c 'import MODULE'`.",
    ),
    Code(
        "pipeline.module.not_found",
        PERMANENT,
        "The module of the pipeline cannot be imported.",
        "Write `package.module:pipeline`, and run where that package can be imported.",
    ),
    Code(
        "pipeline.object.not_a_pipeline",
        PERMANENT,
        "The name after the colon does not exist or is not a Pipeline.",
        "Write `package.module:name` with the name of a `piecework.Pipeline`.",
    ),
    Code(
        "pipeline.sleep.invalid",
        PERMANENT,
        "A compensation sleeps, or the moment of a sleep has no time zone.",
        "Sleep in a stage only, and use `datetime.now(UTC)` or an aware time.",
    ),
    Code(
        "pipeline.stage.not_run",
        PERMANENT,
        "A compensation requested the result of a stage that did not complete. The "
        "message says what the calls of that stage have become.",
        "Ask `ctx.happened` for a call of the stage that it compensates, and use the "
        "result only of stages before it.",
    ),
    Code(
        "pipeline.simulation.out_of_reach",
        PERMANENT,
        "A function of a simulated pipeline tried to use the network.",
        "Replace it by a stub with `--stubs`; see docs/simulate.md.",
    ),
    Code(
        "pipeline.wait.invalid",
        PERMANENT,
        "A stage asks a question that cannot be asked. A compensation waits, or a step "
        "is not before the end of its time. Or text, model or default do not fit.",
        "Correct the arguments of `ctx.wait_for`, or move it into a stage.",
    ),
    Code(
        "pipeline.map.invalid",
        PERMANENT,
        "A compensation or a join maps, or code that no worker runs.",
        "Move `ctx.map` into a stage of a pipeline that a worker runs.",
    ),
    Code(
        "pipeline.map.unknown",
        PERMANENT,
        "A stage maps a pipeline that its worker does not run, so nothing might run "
        "the child.",
        "Start workers with the module of that pipeline: "
        "`piecework worker --pipelines MODULE`.",
    ),
    Code(
        "pipeline.map.cycle",
        PERMANENT,
        "A stage maps its own pipeline, or one that its job is a child of.",
        "Map another pipeline. What calls itself belongs in one stage.",
    ),
    Code(
        "pipeline.map.too_deep",
        PERMANENT,
        "A child job would have more than eight jobs above it.",
        "Map the rows of the lower pipelines from one of the upper ones.",
    ),
    # submit
    Code(
        "submit.job.incomplete",
        STATE,
        "The submit ended before all chunks were recorded.",
        "Run the same submit again, or `piecework reconcile`: both complete the job.",
    ),
    Code(
        "submit.token.conflict",
        PERMANENT,
        "A job with this token exists and has other content.",
        "Use another `--job-id`, or see that job with `piecework jobs show JOB`.",
    ),
    Code(
        "submit.sample.invalid",
        PERMANENT,
        "The size of the sample is not a number of chunks that a sample may have.",
        "Use a number from 1 to 200, such as `--sample 20`.",
    ),
    Code(
        "submit.tolerance.invalid",
        PERMANENT,
        "The tolerance is not a number of chunks, or a share of them.",
        "Use a number such as 20, or a share such as 2%.",
    ),
    Code(
        "submit.budget.invalid",
        PERMANENT,
        "The budget is not an amount of dollars or a number of tokens.",
        "Use dollars such as 40 or 2.50, and tokens such as 2000000.",
    ),
    Code(
        "submit.budget.no_price",
        PERMANENT,
        "A budget in dollars cannot be kept, because a model of the pipeline has no "
        "price.",
        "Declare `Model(…, price=…)` or `Dependency(…, estimate_usd=…)`, or use a "
        "budget in tokens.",
    ),
    # job
    Code(
        "job.changes.none",
        PERMANENT,
        "Newer code has stopped no chunk of the job, so there is nothing to accept.",
        "`piecework jobs explain JOB` says what the job waits for.",
    ),
    Code(
        "job.budget.none",
        PERMANENT,
        "The job was submitted without a budget of that kind, so none can be set.",
        "Pause or cancel it; submit the next job with `--budget-usd` or "
        "`--budget-tokens`.",
    ),
    Code(
        "job.tolerance.exceeded",
        PERMANENT,
        "More chunks became dead letters than the job tolerates. No further chunk "
        "starts; those that had not started are cancelled.",
        "Fix the causes that `piecework dlq stats` lists, then run `piecework jobs "
        "retry JOB`: it also runs the chunks that did not start.",
    ),
    Code(
        "job.cancel.requested",
        PERMANENT,
        "The job was cancelled. A dead letter with this code: the compensation of "
        "the chunk failed, and effects of its stages remain.",
        "`piecework jobs show JOB` shows the actor and the reason. `piecework dlq show "
        "JOB CHUNK` names the uncompensated stages. `piecework jobs retry JOB` runs "
        "the missing chunks.",
    ),
    Code(
        "job.call.not_found",
        PERMANENT,
        "The chunk has no call with this number.",
        "List its calls with `piecework chunks calls JOB CHUNK`.",
    ),
    Code(
        "job.cancel.without_compensation",
        PERMANENT,
        "The job is already being cancelled, without compensation.",
        "Wait until it is CANCELLED, then run `piecework jobs retry JOB` and "
        "`piecework jobs cancel JOB --compensate`.",
    ),
    Code(
        "job.chunk.not_found",
        PERMANENT,
        "The job has no chunk with this number.",
        "List its chunks with `piecework chunks list JOB`.",
    ),
    Code(
        "job.dead_letter.not_found",
        PERMANENT,
        "The chunk has no dead letter.",
        "List the job's dead letters with `piecework dlq list --job JOB`.",
    ),
    Code(
        "job.budget.of_root",
        PERMANENT,
        "A child job spends the budget of the job at the top, and has none of its own.",
        "`piecework jobs set-budget ROOT --budget-usd N`, with the id of that job.",
    ),
    Code(
        "job.parent.paused",
        PERMANENT,
        "A child job is paused because its parent is, and goes on with it.",
        "Resume its parent: `piecework jobs resume PARENT`.",
    ),
    Code(
        "job.parent.cancelled",
        PERMANENT,
        "The job whose stage started this one was cancelled, so this one was, too.",
        "`piecework jobs retry PARENT` retries both.",
    ),
    Code(
        "job.deadline.passed",
        PERMANENT,
        "The job had not ended at its deadline. Its open chunks were cancelled, and "
        "compensated if their pivot had not acted.",
        "Run `piecework jobs retry JOB --deadline 2h`, or leave out the deadline.",
    ),
    Code(
        "job.effect.answer_invalid",
        PERMANENT,
        "The answer does not match what the call of the effect returns.",
        "Give --answer the JSON value that the call returned.",
    ),
    Code(
        "job.effect.not_found",
        PERMANENT,
        "The chunk has no effect in doubt with this key, or more than one.",
        "List the keys with `piecework effects list JOB`.",
    ),
    Code(
        "job.effect.not_resolved",
        PERMANENT,
        "A worker has the chunk, or the effect is not in doubt any more.",
        "Run `piecework effects list JOB` again after the chunk has ended.",
    ),
    Code(
        "job.escalation.failed",
        PERMANENT,
        "The hook of a rung of the ladder failed at every attempt.",
        "`piecework dlq show JOB CHUNK` shows the last error. The hook is not called "
        "again; the next rung is reached at its time.",
    ),
    Code(
        "job.manifest.mismatch",
        STATE,
        "The recorded chunks differ from the chunks of the job's manifest.",
        "Run `piecework reconcile`. If the error persists, compare with "
        "`piecework chunks list JOB`.",
    ),
    Code(
        "job.notification.failed",
        PERMANENT,
        "The pipeline's notify hook failed at every attempt.",
        "`piecework jobs show JOB` shows the last error. The notification is not "
        "sent again.",
    ),
    Code(
        "job.tag.invalid",
        PERMANENT,
        "A tag of a job is not `name=value`, is too long, or is one too many.",
        "Use up to ten, such as `team=legal`: names of 1 to 32 characters, values of "
        "1 to 64, without commas.",
    ),
    Code(
        "job.record.not_found",
        PERMANENT,
        "The tenant has no job with this id.",
        "List the jobs with `piecework jobs list`.",
    ),
    Code(
        "job.record.deleted",
        PERMANENT,
        "The job was deleted, by an operator or after its retention. Its id cannot be "
        "used again.",
        "See its tombstone with `piecework jobs show JOB`; submit with another job id.",
    ),
    Code(
        "job.retry.in_progress",
        PERMANENT,
        "Another command reopens the job, or was interrupted seconds ago.",
        "Repeat the command in 30 seconds. If the job is RUNNING by then, wait for its "
        "end with `piecework jobs watch JOB`.",
    ),
    Code(
        "job.retry.incomplete",
        PERMANENT,
        "The reopening of the job was ended by another process before all chunks were "
        "reopened. The reopened ones run.",
        "Wait for its end with `piecework jobs watch JOB`, then repeat the command.",
    ),
    Code(
        "job.retry.nothing_left",
        PERMANENT,
        "Every chunk of the job has a result or was discarded, and its join has run.",
        "Read the results with `piecework results JOB`.",
    ),
    Code(
        "job.sample.missing",
        PERMANENT,
        "The job was submitted without a sample. A forecast needs one.",
        "See when it ends with `piecework jobs show JOB`, and what it has cost with "
        "`piecework jobs cost JOB`.",
    ),
    Code(
        "job.state.not_cancellable",
        PERMANENT,
        "The job has ended, or its join is running: it cannot be cancelled.",
        "See its status with `piecework jobs show JOB`.",
    ),
    Code(
        "job.state.not_deletable",
        PERMANENT,
        "The job has not ended: it cannot be deleted.",
        "Cancel it with `piecework jobs cancel JOB`, or wait for its end.",
    ),
    Code(
        "job.state.not_pausable",
        PERMANENT,
        "The job is not RUNNING, or it is paused already: it cannot be paused.",
        "See its status and its pause with `piecework jobs show JOB`.",
    ),
    Code(
        "job.state.not_paused",
        PERMANENT,
        "The job is not paused, so it cannot be resumed.",
        "See its status with `piecework jobs show JOB`; an ended job needs "
        "`piecework jobs retry JOB`.",
    ),
    Code(
        "job.pipeline.paused",
        PERMANENT,
        "The pipeline of the job is paused, so the job cannot be resumed.",
        "Resume the pipeline with `piecework pipelines resume PIPELINE`.",
    ),
    Code(
        "job.dependency.not_paused",
        PERMANENT,
        "The dependency is not paused, so it cannot be resumed.",
        "See the dependencies with `piecework limits list`.",
    ),
    Code(
        "job.pipeline.not_paused",
        PERMANENT,
        "The pipeline is not paused, so it cannot be resumed.",
        "See the pipelines with `piecework pipelines list`.",
    ),
    Code(
        "job.state.not_finished",
        PERMANENT,
        "The job has not ended, so it has no complete result and cannot be retried.",
        "Wait with `piecework jobs watch JOB`, or run `piecework results JOB "
        "--follow`.",
    ),
    # redrive
    Code(
        "redrive.payload.invalid",
        PERMANENT,
        "The new payload of a dead-lettered chunk is not valid.",
        "Correct the JSON of `--edit` or `--patch`; `--dry-run` checks it.",
    ),
    Code(
        "redrive.field.unknown",
        PERMANENT,
        "A new payload or value has a field that the stored one lacks. The type of "
        "`--pipeline` lacks it, too. It would vanish.",
        "Correct its name, or check it with `--pipeline MODULE:NAME`.",
    ),
    Code(
        "redrive.effect.unresolved",
        PERMANENT,
        "A dead-lettered chunk has an effect in doubt, and another payload would make "
        "its call once more.",
        "Resolve the effect first: `piecework effects list JOB` lists it.",
    ),
    Code(
        "redrive.value.invalid",
        PERMANENT,
        "The new value of a completed stage is not valid.",
        "Correct the JSON of `--value`; `--dry-run` with `--pipeline` checks it.",
    ),
    Code(
        "redrive.value.unused",
        PERMANENT,
        "A new value was given for a stage that the chunk has not completed.",
        "`piecework chunks show JOB CHUNK` lists its stages. If you did by hand what a "
        "call of the stage does, record it with `piecework effects resolve`; else "
        "leave `--value` out.",
    ),
    Code(
        "redrive.stage.unknown",
        PERMANENT,
        "The pipeline of the job has no such stage to run from.",
        "List the completed stages with `piecework chunks show JOB CHUNK`.",
    ),
    Code(
        "redrive.stage.before_pivot",
        PERMANENT,
        "A chunk would run its pivot again. After its pivot it only goes forward.",
        "Name a stage after the pivot, or redrive it without `--from`.",
    ),
    Code(
        "redrive.effect.repeated",
        PERMANENT,
        "A chunk would run stages again that have acted. A call with other arguments "
        "would happen a second time.",
        "`--dry-run` lists what they did. Add `--repeat-effects` if that may happen "
        "twice, or name a later stage.",
    ),
    Code(
        "redrive.compensation.unknown",
        PERMANENT,
        "The compensation of a dead chunk cannot run again. The chunk died before its "
        "compensation began, for example because its payload could not be read.",
        "Undo the effects by hand, then run `piecework dlq compensate --job JOB "
        "--chunk N --outcome compensated --reason WHY`.",
    ),
    Code(
        "redrive.selection.empty",
        PERMANENT,
        "No dead letter matches the filter.",
        "List the dead letters with `piecework dlq list --job JOB`.",
    ),
    # idempotency
    Code(
        "idempotency.answer.not_kept",
        PERMANENT,
        "The operation was executed before, and its answer is not stored.",
        "Request the answer from the other system. The operation is not executed "
        "again.",
    ),
    Code(
        "idempotency.key.in_progress",
        TRANSIENT,
        "An equal operation is in progress in another call.",
        "Repeat the call after `retry_after` seconds. The operation is not "
        "executed twice. In a pipeline the chunk is deferred, and no attempt is spent.",
    ),
    Code(
        "idempotency.key.mismatch",
        PERMANENT,
        "The key or number was used before with other arguments.",
        "Use another key or number for another operation. Repeat an operation "
        "with its own arguments.",
    ),
    Code(
        "idempotency.key.unusable",
        PERMANENT,
        "No stable key can be computed from the arguments, the scope or the number.",
        "Compute it from text and numbers: `ByKey(of=lambda …: …)`. Numbers start "
        "at 1.",
    ),
    Code(
        "idempotency.sequence.early",
        TRANSIENT,
        "A number of a stream came before the next expected number.",
        "None; the chunk is deferred up to 60 times, and no attempt is spent. To wait "
        "for nothing, let `ordered_by` keep the order.",
    ),
    Code(
        "idempotency.sequence.gap",
        PERMANENT,
        "A number of a stream came before the next expected number. In a pipeline, the "
        "numbers before it did not come while its chunk was deferred 60 times.",
        "Send the number that the message names first. In a pipeline, redrive the dead "
        "letter after it, or let `ordered_by` keep the order.",
    ),
    # config
    Code(
        "config.price.missing",
        PERMANENT,
        "The table of prices has no price for this resource in this region.",
        "Add one with `--prices FILE`, or choose another `--region`.",
    ),
    Code(
        "config.prices.invalid",
        PERMANENT,
        "The file is not a valid table of prices.",
        "Correct what the message names; see `docs/cost.md`.",
    ),
    Code(
        "config.region.missing",
        PERMANENT,
        "No AWS region is set, and no embedded AWS was found.",
        "For the embedded AWS run `piecework up`. For an account set `AWS_REGION`.",
    ),
    Code(
        "config.queue.invalid",
        PERMANENT,
        "An option names a queue that no pipeline can declare.",
        "Use a lower-case letter, then such letters, digits and `-`, 30 in all. Only a"
        " worker names `default`.",
    ),
    Code(
        "embedded.queues.too_many",
        PERMANENT,
        "The embedded AWS has room for three queues of pipelines.",
        "Let pipelines share a queue, or start with other ones: `piecework down`, then "
        "`piecework up --queue NAME`.",
    ),
    Code(
        "config.prometheus_port.unavailable",
        PERMANENT,
        "The port for Prometheus cannot be opened; another process may have it.",
        "Give each process of a machine its own `PIECEWORK_PROMETHEUS_PORT`.",
    ),
    Code(
        "config.setting.invalid",
        PERMANENT,
        "A setting has an invalid value, or two settings contradict each other.",
        "Correct the variable that the message names, then run `piecework doctor`.",
    ),
    # embedded
    Code(
        "embedded.deploy.failed",
        PERMANENT,
        "The emulator runs, but `infra/data.yaml` could not be deployed to it.",
        "Start again with `piecework down` and `piecework up`.",
    ),
    Code(
        "embedded.endpoint.not_loopback",
        PERMANENT,
        "This command works on this machine only, and the endpoint is elsewhere.",
        "Unset `AWS_ENDPOINT_URL` and run `piecework up`.",
    ),
    Code(
        "embedded.environment.install_failed",
        PERMANENT,
        "The Python environment of the emulator could not be installed.",
        "Read the last lines of the installer above, check the network, then run "
        "`piecework up` again.",
    ),
    Code(
        "embedded.port.in_use",
        PERMANENT,
        "Another program has the port, or the user may not open it.",
        "Use another port, or none: then a free port is chosen.",
    ),
    Code(
        "embedded.server.not_healthy",
        TRANSIENT,
        "The emulator was started but does not answer its health check.",
        "Run `piecework down` and `piecework up`. `piecework doctor` shows its log.",
    ),
    Code(
        "embedded.state.absent",
        PERMANENT,
        "No emulator was started from this directory or a parent of it.",
        "Start one with `piecework up`.",
    ),
    Code(
        "embedded.state.ambiguous",
        PERMANENT,
        "Credentials of an AWS account are set, and the folder has an embedded AWS.",
        "Set PIECEWORK_STATE_DIR for the embedded AWS, or unset the credentials.",
    ),
    Code(
        "embedded.state.foreign",
        PERMANENT,
        "The state file belongs to another user, or names another machine.",
        "Delete the file that the message names, then run `piecework up`.",
    ),
    Code(
        "embedded.state.in_use",
        STATE,
        "Another `piecework up` or `piecework dev` serves this folder.",
        "End it: Ctrl-C for `piecework dev`, `piecework down` for `piecework up`.",
    ),
    Code(
        "embedded.state.unreadable",
        PERMANENT,
        "The state file of the emulator has an unexpected content.",
        "Delete the file that the message names, then run `piecework up`.",
    ),
    # infra
    Code(
        "infra.change.refused",
        PERMANENT,
        "CloudFormation could not create a change set.",
        "Correct what the message quotes, then deploy again. Nothing was changed.",
    ),
    Code(
        "infra.config.invalid",
        PERMANENT,
        "The environment file is not valid, or no environment is named.",
        "Correct what the message names; `docs/deploy.md` has an example.",
    ),
    Code(
        "infra.delete.failed",
        PERMANENT,
        "A resource that a stack left could not be deleted.",
        "Correct what the message quotes, then delete the resource with the AWS CLI.",
    ),
    Code(
        "infra.deploy.failed",
        PERMANENT,
        "CloudFormation started the change and could not complete it.",
        "Correct the first failure, check with `piecework infra status`, then "
        "deploy again.",
    ),
    Code(
        "infra.jobs.running",
        STATE,
        "The environment has jobs that have not ended.",
        "List them with `piecework jobs list`. Wait, or run `piecework jobs "
        "cancel JOB`.",
    ),
    Code(
        "infra.parameter.invalid",
        PERMANENT,
        "A parameter does not have the form `Key=Value`.",
        "Write `--parameter Name=value`; see `piecework infra deploy --help`.",
    ),
    Code(
        "infra.environment.elsewhere",
        PERMANENT,
        "The account has this environment in another region, or roles that an earlier "
        "deploy left.",
        "Name another environment (`env`), or deploy in its own region. If no region "
        "has it, delete the role that the message names.",
    ),
    Code(
        "infra.parameter.missing",
        PERMANENT,
        "A parameter of a stack has no value, and no earlier stack exports one.",
        "Pass it as the message says, or add it to the environment file.",
    ),
    Code(
        "infra.parameter.unknown",
        PERMANENT,
        "No template has a parameter with this name.",
        "Choose one that the message lists.",
    ),
    Code(
        "infra.replacement.refused",
        POLICY,
        "The change would replace or remove a resource that stores data.",
        "Do not deploy it, or name each resource with `--allow-replacement`.",
    ),
    Code(
        "infra.request.refused",
        PERMANENT,
        "AWS found a request about a stack invalid.",
        "Correct what the message quotes, then run the command again.",
    ),
    Code(
        "infra.service_role.missing",
        PERMANENT,
        "The account lacks a role of ECS, and the deploy role may not create it.",
        "An administrator runs the command that the error names; then deploy again.",
    ),
    Code(
        "infra.subnets.too_small",
        PERMANENT,
        "The subnets have fewer addresses than `MaxWorkers` needs during an update.",
        "Set a smaller MaxWorkers, or name larger subnets.",
    ),
    Code(
        "infra.stack.busy",
        TRANSIENT,
        "Another operation on the stack is in progress.",
        "Wait until `piecework infra status` shows its end, then deploy again.",
    ),
    Code(
        "infra.stack.in_review",
        STATE,
        "A change set created the stack and was never executed.",
        "If no review is in progress, remove the empty stack with `piecework "
        "infra destroy`.",
    ),
    Code(
        "infra.stack.not_created",
        STATE,
        "The creation of the stack failed; such a stack can only be deleted.",
        "Correct the cause, remove the stack with `piecework infra destroy`, then "
        "deploy again.",
    ),
    Code(
        "infra.stack.stuck",
        STATE,
        "An operation on the stack failed, and its rollback failed too.",
        "Read the stack's events in the CloudFormation console, and correct what "
        "they name.",
    ),
    Code(
        "infra.template.missing",
        PERMANENT,
        "A file of `infra/` is not part of this installation.",
        "Install Piecework again, or run it from a checkout.",
    ),
    Code(
        "infra.template.too_large",
        PERMANENT,
        "A template is larger than a CloudFormation request allows.",
        "Report the error: the template must be split.",
    ),
    # cli
    Code(
        "cli.confirmation.needed",
        PERMANENT,
        "The command changes data, and no terminal can show its question.",
        "Check what the command will change, then add `--yes`.",
    ),
    Code(
        "cli.extra.missing",
        PERMANENT,
        "A package of an extra of Piecework is not installed.",
        "Install the extra that the error names. In the folder of Piecework's source:"
        " `pip install '.[EXTRA]'`.",
    ),
    Code(
        "cli.project.bad_name",
        PERMANENT,
        "The name cannot be the name of a folder, a Python project and an image.",
        "Use lower-case letters, digits and hyphens, such as `my-batch`.",
    ),
    Code(
        "cli.project.folder_taken",
        PERMANENT,
        "A file or a folder with content has the name of the new project.",
        "Choose another name, or move the folder away.",
    ),
    Code(
        "cli.reason.missing",
        PERMANENT,
        "This change needs a reason, which the record keeps.",
        "Say why: `--reason '…'`.",
    ),
    Code(
        "cli.usage.invalid",
        PERMANENT,
        "The command's arguments are not valid together.",
        "See `piecework COMMAND --help`.",
    ),
    Code(
        "cli.wait.timeout",
        TRANSIENT,
        "The job had not ended when the time to wait was over.",
        "The job goes on. Watch it with `piecework jobs watch JOB`.",
    ),
    # run
    Code(
        "run.input.changed",
        PERMANENT,
        "The state file holds a run of other rows, of another pipeline or tenant.",
        "`--fresh` starts anew, and forgets that run. `--state FILE` keeps both.",
    ),
    Code(
        "run.push.refused",
        PERMANENT,
        "What is left of the run cannot go on in a deployment as it is. Nothing was "
        "pushed.",
        "Do what the message names, then push again.",
    ),
    Code(
        "run.push.taken",
        PERMANENT,
        "The deployment has another job with the id of the run. Or an operator has "
        "cancelled the job that the push had begun.",
        "Delete that job, or run the rows with `--fresh`.",
    ),
    Code(
        "run.state.pushed",
        PERMANENT,
        "The run was pushed to a deployment, which owns it: it cannot go on here, too.",
        "Watch its job there: `piecework jobs watch JOB`. `--fresh` starts anew.",
    ),
    Code(
        "run.state.absent",
        PERMANENT,
        "The state file does not exist: all rows of its run have succeeded, or it never"
        " began.",
        "`--state FILE` of the run itself keeps the file of one that has succeeded.",
    ),
    Code(
        "run.state.foreign",
        PERMANENT,
        "The file that `--state` names is not the state file of a run.",
        "Name another file, or one that does not exist.",
    ),
    Code(
        "run.state.idle",
        PERMANENT,
        "A command waits for the job of a state file, and no process works on the "
        "file.",
        "Type the line of the run again: it goes on.",
    ),
    Code(
        "run.state.in_use",
        PERMANENT,
        "Another process has the state file open, and works on the run.",
        "Wait until it ends, or end it. `--no-state` runs beside it.",
    ),
    Code(
        "run.state.unwritable",
        PERMANENT,
        "The state file cannot be written: the disk is full, or a right is missing.",
        "Free space or name another file. The same line then goes on: what was stored"
        " is kept.",
    ),
    Code(
        "run.state.version",
        PERMANENT,
        "Another version of Piecework wrote the state file.",
        "Go on with that version. `--fresh` starts anew, and forgets the run.",
    ),
    # approval
    Code(
        "approval.answer.invalid",
        PERMANENT,
        "The answer does not match the model of the question.",
        "See the fields with `piecework approvals show JOB CHUNK`; the question "
        "is still open.",
    ),
    Code(
        "approval.link.invalid",
        PERMANENT,
        "The link was not made with this secret, or it was changed. Or the secret or "
        "the address of the endpoint cannot be used.",
        "Use the link as it was sent. An endpoint needs a secret of at least 32 "
        "characters and an address http(s)://HOST/PATH.",
    ),
    Code(
        "approval.question.answered",
        PERMANENT,
        "The question was answered before, and that answer counts.",
        "The message has the answer, its actor and its time. To ask again, let the "
        "pipeline ask a further question.",
    ),
    Code(
        "approval.question.asked_again",
        PERMANENT,
        "The question was asked again after this form or link was made.",
        "Answer the question as it is asked at present: "
        "`piecework approvals show JOB CHUNK`. A link needs its new link.",
    ),
    Code(
        "approval.question.contended",
        TRANSIENT,
        "Reminders or escalations of the question were written while it was answered.",
        "Answer again: the question is still open.",
    ),
    Code(
        "approval.question.left",
        PERMANENT,
        "The chunk does not wait for the question any more: its job was cancelled, or "
        "it has ended.",
        "See the chunk with `piecework chunks show JOB CHUNK`.",
    ),
    Code(
        "approval.question.not_found",
        PERMANENT,
        "The chunk has asked no question of this name.",
        "List the open questions with `piecework approvals list`.",
    ),
    Code(
        "approval.question.timed_out",
        PERMANENT,
        "The time of the question was over before this answer. Its default counts, or "
        "its stage failed.",
        "The message says which. A default counts for ever. A redrive of a DEAD chunk "
        "asks again what ended without a default (`piecework dlq redrive`).",
    ),
    # webhook
    Code(
        "webhook.address.refused",
        PERMANENT,
        "The address of the webhook is not a public https:// address.",
        "Use https://. For a private receiver set `PIECEWORK_WEBHOOK_NETWORKS` of the "
        "reconciler.",
    ),
    Code(
        "webhook.delivery.failed",
        PERMANENT,
        "The receiver of a webhook did not accept an event in nine attempts.",
        "See the reason with `piecework webhooks show WEBHOOK`, repair the receiver, "
        "then run `piecework webhooks retry WEBHOOK`.",
    ),
    Code(
        "webhook.record.not_found",
        PERMANENT,
        "No webhook has this name, or it has no such event.",
        "List the webhooks with `piecework webhooks list`.",
    ),
    Code(
        "webhook.secret.weak",
        PERMANENT,
        "The secret of the webhook is too short, or is not base64 after `whsec_`.",
        "Set a random secret: `python -c 'import secrets; "
        "print(secrets.token_urlsafe(32))'`.",
    ),
    Code(
        "webhook.subscription.invalid",
        PERMANENT,
        "The webhook has an option that is not valid.",
        "Correct the option; see `piecework webhooks set --help`.",
    ),
    Code(
        "webhook.variable.missing",
        PERMANENT,
        "The process that delivers lacks the variable that the webhook refers to.",
        "Set the variable for the reconciler; its name begins with "
        "`PIECEWORK_WEBHOOK_`.",
    ),
)


REGISTRY: Final[Mapping[str, Code]] = MappingProxyType({row.code: row for row in ROWS})

LAYERS: Final[Mapping[str, tuple[Code, ...]]] = MappingProxyType(
    {
        layer: tuple(row for row in ROWS if row.layer == layer)
        for layer in dict.fromkeys(row.layer for row in ROWS)
    }
)


_WELL_FORMED: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*){2}")


class UnknownCodeError(AssertionError):
    """A code without a row: an error of the programmer, not of the user."""


def lookup(code: str) -> Code:
    """Return the row of a code.

    Raises:
        UnknownCodeError: The code has no row; the message names similar codes.
    """
    row = REGISTRY.get(code)
    if row is None:
        near = ", ".join(get_close_matches(code, REGISTRY, cutoff=0.5)) or "none"
        message = f"The error code {code!r} has no row; similar codes: {near}."
        raise UnknownCodeError(message)
    return row


def is_well_formed(code: str) -> bool:
    """Return whether a code has the form `layer.kind.detail` in lower case."""
    return _WELL_FORMED.fullmatch(code) is not None


# ── the rows of a pipeline's own codes ────────────────────────────────────────

#: Characters of a cause and of a recovery: each dead letter of the code stores both.
MOST_TEXT: Final = 1_000


def row_errors(rows: Sequence[object]) -> list[str]:
    """Return a clause for each rule that the rows of a pipeline's own codes break."""
    others = [row for row in rows if not isinstance(row, Code)]
    found = [f"{row!r} in its codes is not a `Code`" for row in others]
    own = [row for row in rows if isinstance(row, Code)]
    names = [row.code for row in own]
    for row in own:
        name = f"its code {row.code!r}"
        if not is_well_formed(row.code):
            found.append(f"{name} is not of the form `layer.kind.detail`")
        if row.code in REGISTRY:
            found.append(f"{name} is one of Piecework's: take a layer of your own")
        if row.error_class not in [*ErrorClass]:
            found.append(f"{name} has the class {row.error_class!r}, not an ErrorClass")
        for what, text in (("cause", row.cause), ("recovery", row.recovery)):
            if not text.strip():
                found.append(f"{name} has no {what}")
            if len(text) > MOST_TEXT:
                found.append(f"{name} has a {what} of more than {MOST_TEXT:,} letters")
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    return found + [f"two of its codes are {name!r}" for name in doubled]


def own_meaning(code: str, rows: Iterable[Code]) -> dict[str, str]:
    """Return cause and recovery of a pipeline's own code, of which a chunk died.

    Without a row the recovery says so. Empty: the code is one of Piecework's.
    """
    if code in REGISTRY:
        return {}
    row = next((row for row in rows if row.code == code), None)
    if row is not None:
        return {"cause": row.cause, "recovery": row.recovery}
    step = "declare it in `Pipeline(codes=[…])`"
    if not is_well_formed(code):
        step = f"give it the form `layer.kind.detail`, and {step}"
    return {"recovery": f"The code {code} has no row: {step}."}


#: Characters of a user's own code that are kept.
MAX_OWN_CODE: Final = 64
_NOT_IN_CODES: Final = re.compile(r"[^a-z0-9_.]+")
#: The layer of the codes that users chose freely.
APP: Final = "app"


def own_code(code: object) -> str:
    """Return a user's own code as it is stored: any text becomes `app.<text>`.

    A code in the form `layer.kind.detail` is stored unchanged. Empty: no text is left.
    """
    text = str(code)
    if is_well_formed(text):
        return text
    words = _NOT_IN_CODES.sub("_", text.lower().removeprefix(f"{APP}."))
    kept = words[:MAX_OWN_CODE].strip("._")
    return f"{APP}.{kept}" if kept else ""
