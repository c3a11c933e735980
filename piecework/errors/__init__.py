"""Every error that Piecework raises, and the envelope in which errors are stored.

PieceworkError
├── StageError            raised by stages and by the clients that they call
│   ├── TransientError      a retry may help
│   ├── PermanentError      a retry cannot help
│   ├── SemanticError       a valid answer with the wrong content
│   ├── PolicyError         refused by a rule or a quota
│   └── StateError          our own state was lost
├── UsageError            exit 2: arguments, settings, input, pipeline
├── StoreError            exit 6: our own tables or objects are unavailable
│   ├── WorkerExhaustedError exit 9: the worker lacks what a process needs
│   └── SchemaTooNewError    exit 2: a later version wrote the record
├── NotFoundError         exit 3
├── UnreachableError      exit 6
└── WaitTimeoutError      exit 7
    └── AnswerTimeoutError   and PermanentError: raised by `ctx.wait_for`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from piecework.errors.codes import REGISTRY, Code, ErrorClass, lookup, own_code

if TYPE_CHECKING:
    from piecework.errors.envelope import ErrorEnvelope as ErrorEnvelope

#: The codes of a worker that lacks what any process needs.
WORKER_OUTAGES: Final = frozenset(
    {"runtime.worker.exhausted", "runtime.worker.no_child"}
)
#: The codes of an outage of the store: AWS does not answer this process, or refuses it.
#: The other codes of `StoreError` refuse one request, which its chunk may have caused.
STORE_OUTAGES: Final = WORKER_OUTAGES | frozenset(
    {
        "aws.access.denied",
        "aws.clock.skewed",
        "aws.credentials.expired",
        "aws.credentials.invalid",
        "aws.credentials.missing",
        "aws.credentials.unavailable",
        "aws.endpoint.timeout",
        "aws.endpoint.unreachable",
        "aws.endpoint.untrusted",
        "aws.key.unusable",
        "aws.quota.exceeded",
        "aws.resource.not_found",
        "aws.service.throttled",
        "aws.service.unavailable",
    }
)


class PieceworkError(Exception):
    """An error with a code of the registry, one sentence and the next step."""

    code: str = "runtime.stage.unhandled"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        code: str | Code | None = None,
        next_step: str = "",
        retry_after: float | None = None,
        **facts: object,
    ) -> None:
        """Store the arguments; the default next step is the recovery of the code."""
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else str(code)
        self.error_class, recovery = self._meaning()
        if isinstance(code, Code):
            recovery = code.recovery
        self.next_step = next_step or recovery
        self.retry_after = retry_after
        self.facts = facts
        # A traceback shows it below the message; the error of a stage is stored.
        if self.next_step and not isinstance(self, StageError):
            self.add_note(f"{self.code}; next: {self.next_step}")

    def _meaning(self) -> tuple[ErrorClass, str]:
        row = lookup(self.code)
        return row.error_class, row.recovery


class StageError(PieceworkError):
    """The base of the five errors whose type, not code, decides the recovery.

    A function of a call may say with `sent=False` that it sent nothing, or with
    `sent=True` that it did. Without that, the type of the cause decides.

    A stage may use a code of its own: a `Code` of `Pipeline(codes=[…])`, or its text.
    It is stored unchanged in the form `layer.kind.detail`, and as `app.<code>` in any
    other form.
    """

    stage_class: ClassVar[ErrorClass]

    def _meaning(self) -> tuple[ErrorClass, str]:
        known = REGISTRY.get(self.code)
        if known is None:
            self.code = own_code(self.code) or f"runtime.stage.{self.stage_class}"
        return self.stage_class, known.recovery if known else ""


class TransientError(StageError):
    """A failure that may pass: the call is retried after a delay."""

    code = "runtime.stage.transient"
    stage_class = ErrorClass.TRANSIENT


class PermanentError(StageError):
    """A failure that every attempt would repeat."""

    code = "runtime.stage.permanent"
    stage_class = ErrorClass.PERMANENT


class SemanticError(StageError):
    """An answer in the right form with the wrong content."""

    code = "runtime.stage.semantic"
    stage_class = ErrorClass.SEMANTIC


class PolicyError(StageError):
    """A refusal by a rule or a quota: a fallback or another variant may accept it."""

    code = "runtime.stage.policy"
    stage_class = ErrorClass.POLICY


class StateError(StageError):
    """A loss of our own state: the checkpoint is restored and the chunk retried."""

    code = "runtime.stage.state"
    stage_class = ErrorClass.STATE


class RemoteError(Exception):
    """An error that another of our processes raised and classified."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        """Store the envelope."""
        super().__init__(envelope.message)
        self.envelope = envelope


class UsageError(PieceworkError):
    """An error that the user can correct: arguments, settings, input or pipeline."""

    code = "cli.usage.invalid"
    exit_code = 2


class NotFoundError(PieceworkError):
    """The requested record does not exist."""

    code = "job.record.not_found"
    exit_code = 3


class UnreachableError(PieceworkError):
    """AWS, or the emulator, does not answer."""

    code = "aws.endpoint.unreachable"
    exit_code = 6


class WaitTimeoutError(PieceworkError):
    """The time to wait is over: of a program, whose job goes on, or of a question.

    It is no `TimeoutError`: that is an `OSError`, which code around files catches.
    """

    code = "cli.wait.timeout"
    exit_code = 7


class AnswerTimeoutError(WaitTimeoutError, PermanentError):
    """The time of a question is over without an answer, and it has no default.

    `ctx.wait_for` raises it in the stage that asked, which fails unless it goes on.
    """

    code = "runtime.wait.timed_out"
    exit_code = 1


class StoreError(PieceworkError):
    """Our own tables, queues or objects are unavailable: not the chunk's fault."""

    code = "aws.service.unavailable"

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """6 if the failure is transient; 2 if AWS refused the request."""
        return 6 if self.error_class is ErrorClass.TRANSIENT else 2

    @property
    def is_outage(self) -> bool:
        """Whether any other request would fail, too: it spends no attempt."""
        return self.code in STORE_OUTAGES


class WorkerExhaustedError(StoreError):
    """The worker lacks memory, handles, threads or processes: not the chunk's fault."""

    code = "runtime.worker.exhausted"
    exit_code = 9


class SchemaTooNewError(StoreError):
    """A record was written by a later version, and needs a worker of that version."""

    code = "runtime.record.schema_too_new"

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """2: the user can install the later version."""
        return 2


def __getattr__(name: str) -> Any:
    """Import the envelope when it is used: it is a model of pydantic, which is slow."""
    if name == "ErrorEnvelope":
        from piecework.errors.envelope import ErrorEnvelope

        return ErrorEnvelope
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def error_lines(code: str, message: str, next_step: str) -> str:
    """Return an error as operators read it: what happened, then the next step."""
    return f"error {code}: {message}\nnext: {next_step}\n"
