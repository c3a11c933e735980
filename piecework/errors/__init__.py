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
│   └── SchemaTooNewError    exit 2: a later version wrote the record
├── NotFoundError         exit 3
├── UnreachableError      exit 6
└── WaitTimeoutError      exit 7
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, field_validator

from piecework.errors.codes import REGISTRY, ErrorClass, is_well_formed, lookup
from piecework.errors.redaction import shortened

# Limits in characters: the rest of a long text is rarely read.
MESSAGE_LIMIT: Final = 512
CAUSE_LIMIT: Final = 256
PROVIDER_CODE_LIMIT: Final = 64
TRACEBACK_LIMIT: Final = 2_000
#: The codes of an outage of the store: AWS does not answer this process, or refuses it.
#: The other codes of `StoreError` refuse one request, which its chunk may have caused.
STORE_OUTAGES: Final = frozenset(
    {
        "aws.access.denied",
        "aws.credentials.invalid",
        "aws.credentials.missing",
        "aws.endpoint.timeout",
        "aws.endpoint.unreachable",
        "aws.key.unusable",
        "aws.quota.exceeded",
        "aws.resource.not_found",
        "aws.service.throttled",
        "aws.service.unavailable",
    }
)
_PROVIDER_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:#-]{0,63}")


class PieceworkError(Exception):
    """An error with a code of the registry, one sentence and the next step."""

    code: str = "runtime.stage.unhandled"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        next_step: str = "",
        retry_after: float | None = None,
        **facts: object,
    ) -> None:
        """Store the arguments; the default next step is the recovery of the code."""
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else code
        self.error_class, recovery = self._meaning()
        self.next_step = next_step or recovery
        self.retry_after = retry_after
        self.facts = facts

    def _meaning(self) -> tuple[ErrorClass, str]:
        row = lookup(self.code)
        return row.error_class, row.recovery


class StageError(PieceworkError):
    """The base of the five errors whose type, not code, decides the recovery.

    A stage may use a code of its own. It is stored unchanged if it is well formed.
    """

    stage_class: ClassVar[ErrorClass]

    def _meaning(self) -> tuple[ErrorClass, str]:
        known = REGISTRY.get(self.code)
        if known is None and not is_well_formed(self.code):
            known = lookup(self.code)  # raises, and names similar codes
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
    """The time to wait is over; the job goes on."""

    code = "cli.wait.timeout"
    exit_code = 7


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


class SchemaTooNewError(StoreError):
    """A record was written by a later version, and needs a worker of that version."""

    code = "runtime.record.schema_too_new"

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """2: the user can install the later version."""
        return 2


class ErrorEnvelope(BaseModel):
    """An error as data: the only form in which errors are stored and compared.

    Attributes:
        attempt: The attempt of the call in a call's error; else that of the chunk.
        cause: The types of the exception and of its causes, outermost first, each with
            its code if it has one.
        at: ISO 8601, UTC.
        correlation_id: `job/chunk`, as in every event of the log.
        retry_after: Seconds of the provider's Retry-After.
        dependency: The dependency that the chunk waits for, if its breaker is open.
        exception: The type of the exception that was raised.
        location: Where the user's code raised it: `shop.py:41 in price`.
        traceback: Types, files, lines and functions, without any value.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    error_class: ErrorClass
    message: str
    http_status: int | None = None
    provider_code: str | None = None
    attempt: int = 0
    stage: str = ""
    cause: str = ""
    at: str = ""
    correlation_id: str = ""
    retry_after: float | None = None
    dependency: str = ""
    exception: str = ""
    location: str = ""
    traceback: str = ""

    @field_validator("message")
    @classmethod
    def _clean_message(cls, message: str) -> str:
        return shortened(message, MESSAGE_LIMIT)

    @field_validator("cause", "exception", "location")
    @classmethod
    def _clean_names(cls, names: str) -> str:
        return shortened(names, CAUSE_LIMIT)

    @field_validator("traceback")
    @classmethod
    def _clean_traceback(cls, lines: str) -> str:
        return shortened(lines, TRACEBACK_LIMIT)

    @field_validator("provider_code")
    @classmethod
    def _clean_provider_code(cls, code: str | None) -> str | None:
        if code is None or not _PROVIDER_CODE.fullmatch(code):
            return None  # a code is one word; anything else may be data
        return shortened(code, PROVIDER_CODE_LIMIT)

    @property
    def raised(self) -> str:
        """What was raised, and where: `KeyError at shop.py:41 in price`."""
        return f"{self.exception} at {self.location}" if self.location else ""

    @property
    def retryable(self) -> bool:
        """Whether a retry of the same call can help."""
        return self.error_class is ErrorClass.TRANSIENT
