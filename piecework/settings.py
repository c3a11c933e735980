"""The settings of a process: default, unit and reason. Each main reads them once.

The environment variable of a setting is its name in capitals after `PIECEWORK_`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Final, Literal

from piecework.errors import UsageError

PREFIX: Final = "PIECEWORK_"
#: A bucket name joins both with the account and the region; S3 allows 63 characters.
#: A hyphen could end either: the deploy role of `prod` would reach that of `prod-eu`.
_APP = r"^[a-z][a-z0-9]{0,19}$"
_ENV = r"^[a-z][a-z0-9]{0,13}$"

#: Seconds for which a worker may keep a message hidden, from its receive. SQS allows 12
#: hours. The margin is for the waits of at most 15 minutes in the queue.
MAX_RECEIVE_S = 43_200.0 - 1_200.0


class InvalidSettingsError(ValueError):
    """Values that are not settings; the message names each, and quotes none."""


def setting(default: Any, **bounds: Any) -> Any:
    """Return a field with its bounds: `ge`, `gt`, `le`, `pattern`, `words`."""
    return field(default=default, metadata=bounds)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one process.

    Raises:
        InvalidSettingsError: A value has another type than the default, or is out of
            its bounds.
    """

    #: The first two words of every resource's name: `{app}-{env}-work` and so on.
    app: str = setting("piecework", pattern=_APP)
    env: str = setting("local", pattern=_ENV)
    #: The tenant of all jobs that the process handles; part of every key.
    tenant: str = setting("default", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    #: The person or team for dead letters, and the address of their instructions, where
    #: a pipeline names none. `piecework infra deploy` asks for both.
    owner: str = setting("the operator of this deployment", pattern=r"^\S.{0,255}$")
    runbook: str = setting("docs/runbooks/dead-letters.md", pattern=r"^\S.{0,1023}$")

    #: The name of the code that this process runs, such as a revision or a tag of its
    #: image. Chunks, results and dead letters have it. Empty: the image, the checkout
    #: or the files of the pipeline tell: see `piecework.saga.code_version`.
    code_version: str = setting("", pattern=r"^[A-Za-z0-9._+@:/-]{0,64}$")

    #: Seconds that a lease lasts. The worker renews it every third of this time. A
    #: short lease lets another worker take over a dead worker's chunk sooner; a long
    #: one needs fewer writes. A stage that blocks the event loop for more than half of
    #: it costs its worker the chunks.
    lease_s: float = setting(18.0, ge=0.5)
    #: Seconds that a received message stays hidden. It must be longer than the lease:
    #: when a dead worker's message comes back, its lease has then expired.
    visibility_s: float = setting(90.0, ge=1.0, le=MAX_RECEIVE_S)
    #: Seconds by which the clocks of two workers may differ. A worker treats a lease as
    #: expired only when it ended longer ago than this.
    clock_skew_s: float = setting(5.0, ge=0.0)
    #: Attempts of a chunk before it is dead-lettered.
    max_attempts: int = setting(3, ge=1, le=100)
    #: Releases of a chunk by stopping workers that spend no attempt.
    max_releases: int = setting(10, ge=0)
    #: How often a chunk that this code must not run waits for a worker with other code,
    #: in about half an hour. Then it is dead-lettered. A run of one process has no such
    #: worker, and does not wait.
    max_code_waits: int = setting(10, ge=0)
    #: Takeovers of a chunk that spend no attempt. Before each one, the chunk's worker
    #: died, froze or was cut off, perhaps by the fault of another chunk.
    max_takeovers: int = setting(10, ge=0)
    #: Deferrals of a chunk for an open circuit breaker before it is dead-lettered. And
    #: seconds since the first one or its last progress, after which it is
    #: dead-lettered. An outage of a day causes some 1,300 deferrals at most. They are
    #: one for each open period of the breaker, and some during each slow probe. A
    #: compensation may take twice as much.
    max_deferrals: int = setting(2_000, ge=1)
    max_deferred_s: float = setting(86_400.0, gt=0)
    #: Seconds since the first of these deferrals for which a failed probe of the
    #: breaker costs its chunk no attempt. So an outage of an hour spends none, even of
    #: a job of two chunks. Two poison inputs that open the breaker end after it.
    free_probe_s: float = setting(3_600.0, ge=0)
    #: Seconds that one claim may last in all. SQS hides a message for 12 hours from its
    #: receive; this time and `visibility_s` together stay below. A suspect's wait for
    #: its turn does not count.
    max_runtime_s: float = setting(900.0, gt=0, le=39_600)
    #: Seconds without a finished call or stage after which a chunk counts as stalled.
    stall_timeout_s: float = setting(300.0, gt=0)
    #: Seconds without a turn of the event loop after which the worker logs the stack.
    #: asyncio's own steps take milliseconds; ten seconds are a stage that blocks.
    loop_blocked_s: float = setting(10.0, ge=0.1)
    #: Seconds that one run of a chunk may wait in retries of its calls.
    retry_time_s: float = setting(60.0, ge=0)
    #: Seconds that a call may wait in the worker until the limits of its dependency let
    #: it start. Then its chunk is deferred, and another chunk uses the worker.
    quota_wait_s: float = setting(300.0, gt=0)
    #: Seconds that a stopping worker lets its chunks run before it releases them.
    #: Fargate sends SIGKILL 30 s after SIGTERM by default, and at most 120 s after it.
    #: The releases take up to 9 s of that time.
    shutdown_grace_s: float = setting(20.0, ge=0)

    #: Megabytes of memory at which a worker stops as on SIGTERM. Its exit code is 8, so
    #: that the platform starts a fresh worker. 0: three quarters of the memory of its
    #: ECS task or its container, if that is limited. And megabytes that an isolated
    #: stage may use if the stage declares no limit; 0: no limit. Both need Linux.
    memory_mb: int = setting(0, ge=0)
    stage_memory_mb: int = setting(0, ge=0)

    #: The file for a container's health check. Worker and reconciler write into it the
    #: time by which each of their loops must report next. Empty: no file.
    health_file: str = ""

    #: The largest number of chunks, and of calls in flight, in one worker process.
    max_chunks: int = setting(16, ge=1, le=1_000)
    max_calls_in_flight: int = setting(64, ge=1, le=10_000)
    #: Seconds of one long poll of SQS. 20 is the longest that SQS allows, and the
    #: cheapest. A poll is not longer than the shutdown grace, or than one second if the
    #: grace is shorter. A stop waits for the end of a poll.
    receive_wait_s: int = setting(20, ge=0, le=20)
    #: Seconds between two polls of a worker for cancelled jobs and for the fleet's
    #: breakers. A worker notices a cancel within this time. A poll costs two small
    #: reads.
    cancel_poll_s: float = setting(0.5, ge=0.1, le=10)
    #: Seconds for which a worker collects finished chunks before it writes their tally
    #: and deletes their messages in one batch. An idle worker does not wait.
    ack_batch_s: float = setting(0.05, ge=0, le=5)
    #: The journal writes remembered calls after so many seconds, or so many results.
    journal_flush_s: float = setting(0.25, ge=0, le=10)
    journal_page: int = setting(25, ge=1, le=100)

    #: Which calls are kept with arguments and answer, for `piecework chunks calls`.
    #: `failed`: those whose answer was refused, or that ended their chunk. `all`:
    #: each claim writes one object more to S3. `none`: none.
    record_calls: Literal["failed", "all", "none"] = setting(
        "failed", words=("failed", "all", "none")
    )

    #: Seconds between two passes of the reconciler.
    #: And seconds after which it redispatches a chunk that no worker has claimed. Each
    #: redispatch of a chunk doubles this time.
    reconcile_s: float = setting(5.0, gt=0)
    redispatch_s: float = setting(900.0, gt=0)
    #: Read units a second that a reconciler may spend on the chunks of all jobs
    #: together. A job that needs more than its share is read less often.
    reconcile_read_units: float = setting(200.0, gt=0)

    #: The reconciler raises an alarm if `dead_letter_alarm` dead letters or more arrive
    #: within the window. It also does if the oldest open one is older than
    #: `dead_letter_age_s`. 0 dead letters: no alarms. The alarm of CloudWatch has the
    #: same defaults.
    dead_letter_alarm: int = setting(3, ge=0)
    dead_letter_alarm_window_s: float = setting(300.0, gt=0)
    dead_letter_age_s: float = setting(86_400.0, gt=0)

    #: Seconds for one attempt to deliver an event to a webhook. And the private
    #: networks that webhooks may reach, such as `10.0.0.0/8,fd00::/8`; without one they
    #: reach public addresses only.
    webhook_timeout_s: float = setting(10.0, ge=0.1, le=60)
    webhook_networks: str = setting("", pattern=r"^[0-9a-fA-F.:/, ]*$")
    #: Seconds for which a job is stuck, or a breaker is open, before webhooks are told.
    #: A webhook may have its own time. A quarter of an hour outlasts a deployment and
    #: the usual restart of a provider.
    webhook_after_s: float = setting(900.0, ge=1)

    #: The address of your endpoint where people answer questions by a signed link, such
    #: as `https://ops.example.com/answer`. Then events of webhooks and `approvals show`
    #: have a link for each open question. Its secret is the variable
    #: `PIECEWORK_WEBHOOK_ANSWER_SECRET`. Empty: they have no links.
    answer_url: str = setting("", pattern=r"^(https?://[A-Za-z0-9./:_~-]+)?$")

    #: `emf`: worker and reconciler write their metrics to stdout once a minute, in
    #: CloudWatch's embedded metric format. `off` is the default, because CloudWatch
    #: charges for each metric.
    metrics: Literal["off", "emf"] = setting("off", words=("off", "emf"))

    #: The TCP port of 127.0.0.1 at which worker and `piecework reconcile --loop` answer
    #: Prometheus at `/metrics`. 0: they do not.
    prometheus_port: int = setting(0, ge=0, le=65_535)
    #: The share of the chunks without a failure whose traces a worker sends, if its
    #: program has configured OpenTelemetry. A claim in which an attempt failed, or
    #: which did not succeed, is always sent. Each trace that is sent costs the CPU of
    #: its spans. The default keeps telemetry below a twentieth of a worker's CPU.
    trace_ratio: float = setting(0.05, ge=0, le=1)
    #: The names of payload fields that a trace may show, separated by commas.
    trace_fields: str = setting("", pattern=r"^[A-Za-z0-9_, ]*$")

    #: `info`: each answered attempt of a call has a line in the log, with its duration.
    #: `debug` is the default, because a large job would write a line for each call. A
    #: failed attempt always has a line.
    attempt_log: Literal["debug", "info"] = setting("debug", words=("debug", "info"))

    #: `secrets`: keys, tokens, passwords, card numbers and mail addresses are masked in
    #: messages and logs. `all`: account, social security and phone numbers, too; other
    #: long numbers may look like them.
    redact: Literal["secrets", "all"] = setting("secrets", words=("secrets", "all"))

    #: `thin`: the worker's frequent requests are signed and sent without the SDK, at a
    #: quarter of its CPU. `sdk`: all requests go through the SDK.
    aws_transport: Literal["thin", "sdk"] = setting("thin", words=("thin", "sdk"))

    #: Days from the end of a job to its deletion by a reconciler. Its record, chunks,
    #: payloads, results, dead letters and files go together. A job with an open dead
    #: letter stays. 0: jobs stay until an operator deletes them. The submit sets by it
    #: the time at which DynamoDB deletes the rows of chunks. Each month of it costs
    #: 0.45 USD a GB of rows, backups included: `piecework jobs cost` says how much.
    job_retention_days: int = setting(90, ge=0)

    def __post_init__(self) -> None:
        """Convert and check every value."""
        problems = []
        for each in fields(self):
            try:
                value = convert(getattr(self, each.name), type(each.default))
            except ValueError as error:
                problems.append(f"{each.name}: {error}")
                continue
            object.__setattr__(self, each.name, value)
            wrong = "; ".join(broken_bounds(value, each.metadata))
            problems += [f"{each.name}: {wrong}"] if wrong else []
        if not problems:
            problems += self._conflicts()
        if problems:
            raise InvalidSettingsError("; ".join(problems))

    def _conflicts(self) -> Iterator[str]:
        """Yield a clause for each pair of settings that exclude each other."""
        if self.visibility_s <= self.lease_s:
            yield "visibility_s must be longer than lease_s"
        if self.max_runtime_s + self.visibility_s > MAX_RECEIVE_S:
            yield (
                "max_runtime_s and visibility_s together must not exceed"
                f" {MAX_RECEIVE_S:,.0f}"
            )

    @property
    def unclaimed_s(self) -> float:
        """The seconds for which a received message stays hidden before a renewal.

        A worker that dies before its claim leaves only the message. If it dies after
        it, the lease is over when the message returns.
        """
        return min(self.visibility_s, self.lease_s + 1.0)

    @property
    def longest_wait_s(self) -> float:
        """The longest wait in seconds of a retry inside the worker.

        The lease was renewed at most a third of its length ago, so two thirds are left.
        A tenth of the lease is margin.
        """
        return self.lease_s * (2 / 3 - 0.1)

    @property
    def blocked_child_s(self) -> float:
        """The seconds for which a suspect may block the event loop of its child.

        In a worker, a block shorter than the lease costs no chunk its claim.
        """
        return max(self.lease_s, self.loop_blocked_s)

    @property
    def long_poll_s(self) -> int:
        """The seconds of one long poll.

        SQS hides the messages of a poll that a stop cuts off. So a stop waits for its
        end. No poll is longer than the shutdown grace, or than a second.
        """
        return min(self.receive_wait_s, max(1, int(self.shutdown_grace_s)))

    @property
    def work_queue(self) -> str:
        """The name of the default queue that workers receive from."""
        return f"{self.app}-{self.env}-work"

    def queue_name(self, queue: str) -> str:
        """Return the name in SQS of a queue that a pipeline declares; empty: default.

        The underscore keeps it apart from the dead-letter queue, also in a policy.
        """
        return f"{self.work_queue}_{queue}" if queue else self.work_queue

    @property
    def dead_letter_queue(self) -> str:
        """The name of the queue to which SQS moves messages after too many receives."""
        return f"{self.work_queue}-dlq"

    @property
    def checkpoints_table(self) -> str:
        """The name of the table of jobs, chunks and stages."""
        return f"{self.app}-{self.env}-checkpoints"

    @property
    def dead_letters_table(self) -> str:
        """The name of the table of dead letters."""
        return f"{self.app}-{self.env}-dead-letters"

    def bucket(self, account: str, region: str) -> str:
        """Return the name of the bucket of payloads, manifests and results."""
        return f"{self.app}-{self.env}-{account}-{region}"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment; an override comes before a variable.

    Raises:
        UsageError: `config.setting.invalid`, naming each bad setting.
    """
    try:
        return Settings(**{**from_environment(os.environ), **overrides})
    except InvalidSettingsError as error:
        message = f"These settings are invalid: {error}."
        raise UsageError(message, code="config.setting.invalid") from error


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that variables name, in any case, as texts."""
    variables = {name.upper(): value for name, value in environ.items()}
    names = {each.name: PREFIX + each.name.upper() for each in fields(Settings)}
    return {
        name: variables[variable]
        for name, variable in names.items()
        if variable in variables
    }


# pydantic would check these values, too. It is not used, because it loads for longer
# than a command that shows a job may take in all.


def convert(value: Any, kind: type[Any]) -> Any:
    """Return a value of a setting's type: a number may be written as text.

    Raises:
        ValueError: The value has another type. The message does not quote it, because a
            misplaced value may be a secret.
    """
    if isinstance(value, str) and kind is not str:
        try:
            value = kind(value)
        except ValueError:
            value = None
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not isfinite(value)):
        name = {int: "a whole number", float: "a number", str: "a text"}[kind]
        raise ValueError(f"must be {name}") from None
    return value


def broken_bounds(value: Any, bounds: Mapping[str, Any]) -> Iterator[str]:
    """Yield a clause for each bound that a value breaks."""
    if "ge" in bounds and value < bounds["ge"]:
        yield f"must be at least {bounds['ge']:g}"
    if "gt" in bounds and value <= bounds["gt"]:
        yield f"must be greater than {bounds['gt']:g}"
    if "le" in bounds and value > bounds["le"]:
        yield f"must be at most {bounds['le']:g}"
    # `$` alone would accept a line break at the end.
    if "pattern" in bounds and not re.fullmatch(bounds["pattern"], value):
        yield f"must match {bounds['pattern']}"
    if "words" in bounds and value not in bounds["words"]:
        yield f"must be {' or '.join(bounds['words'])}"
