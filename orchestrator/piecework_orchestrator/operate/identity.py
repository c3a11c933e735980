"""Name the operator for the record, and new jobs."""

from __future__ import annotations

import getpass
import hashlib
import re
import secrets
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from piecework.domain.keys import is_name
from piecework.errors import UsageError

if TYPE_CHECKING:
    from piecework.runtime import Runtime

#: Letters and digits that are not easily confused with others.
ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"


#: The most characters of a job id.
MAX_ID = 64
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_]+")


def whoami() -> str:
    """Return user and host of the operator, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def operator_of(rt: Runtime, named: str = "") -> str:
    """Return the operator, as every act records it.

    On AWS it is the caller's identity, which a caller cannot choose. A name that a
    program gave stands before it. Elsewhere it is that name, or user and host.
    """
    if rt.identity:
        return f"{named} ({rt.identity})" if named else rt.identity
    return named or whoami()


def new_job_id(now: float) -> str:
    """Return a unique id that sorts by time."""
    token = "".join(secrets.choice(ALPHABET) for _ in range(5))
    return f"{datetime.fromtimestamp(now, UTC):%y%m%d-%H%M%S}-{token}"


def event_job_id(name: str, event: str) -> str:
    """Return the job id of an event: the same event has the same id.

    It shows as much of the event as fits. A digest tells events apart whose texts
    differ only in what an id cannot have.
    """
    digest = hashlib.sha256(event.encode()).hexdigest()[:8]
    shown = _NOT_IN_IDS.sub("-", event).strip("-")[: MAX_ID - len(name) - 10]
    return f"{name}-{shown}-{digest}" if shown else f"{name}-{digest}"


def require_job_id(job: str | None) -> None:
    """Refuse an id that cannot name a job; None stands for a new id.

    An empty id is refused, because it often comes from an unset variable. With a new
    id, each repetition of the submit would create another job.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if job is not None and not is_name(job):
        message = f"{job!r} is not a valid job id."
        step = "Use up to 64 letters, digits, `-` and `_`."
        raise UsageError(message, next_step=step)
