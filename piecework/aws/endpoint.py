"""Find the AWS endpoint: from the environment, else from the state of `piecework up`.

On AWS neither exists, and the SDK's own chain of credentials and regions applies.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from piecework.errors import UsageError

STATE_FOLDER = ".piecework"
STATE_FILE = "emulator.json"
#: The variables that select the endpoint of piecework's services. Variables of other
#: services, such as Bedrock, do not count.
ENDPOINT_VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_S3",
)
DEFAULT_REGION = "us-east-1"
#: The version in the state of an AWS that `piecework dev` serves from its process.
IN_PROCESS = "in process"
#: Variables that say which account of AWS the SDK would use.
ACCOUNT_VARIABLES = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


@dataclass(frozen=True, slots=True)
class Emulator:
    """The address and the process of the embedded AWS.

    Attributes:
        key: The access key that requests must be signed with; empty: any key. The
            signature itself is not checked.
        run_line: What starts the run again whose state file it serves. Only the run
            has workers, and it does not run meanwhile. Empty: it serves a deployment.
    """

    endpoint: str
    pid: int
    region: str
    version: str
    key: str = ""
    run_line: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of AWS, and the source of that information.

    Attributes:
        url: The endpoint; empty for AWS itself, or if each service has its own.
        source: `environment`, `embedded` or `aws`.
        region: Empty if the SDK's own configuration applies.
        key: The access key of the embedded AWS.
        by_dev: Whether a `piecework dev` serves the embedded AWS.
        partial: Whether the variables name this machine for some services alone.
        run_line: As that of `Emulator`.
    """

    url: str
    source: str
    region: str
    key: str = ""
    by_dev: bool = False
    partial: bool = False
    run_line: str = ""

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine, where mistakes cost nothing."""
        return is_loopback(self.url) and not self.partial

    def embedded_keys(self) -> tuple[str, str]:
        """Return access key and secret for the embedded AWS, which checks the key."""
        return self.key or "embedded", "embedded"

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of each client of a session."""
        if self.source != "embedded":
            return {}
        key, secret = self.embedded_keys()
        return {
            "endpoint_url": self.url,
            "region_name": self.region,
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
        }


def find_endpoint(
    environment: Mapping[str, str] = os.environ, directory: Path | None = None
) -> Endpoint:
    """Return the endpoint of AWS.

    botocore reads only `AWS_DEFAULT_REGION`; ECS and most users set `AWS_REGION`, so
    this function reads both.

    Raises:
        UsageError: `embedded.state.unreadable`, `embedded.state.ambiguous`;
            `config.setting.invalid`: the endpoint in a variable is not a URL.
    """
    region = environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION", "")
    urls = [named_url(environment, name) for name in ENDPOINT_VARIABLES]
    if named := [url for url in urls if url]:
        # An emulator accepts any region; a private AWS endpoint needs the true one.
        here = all(map(is_loopback, named))
        some = DEFAULT_REGION if here else ""
        partial = not here or not (urls[0] or all(urls[1:]))
        return Endpoint(named[0], "environment", region or some, partial=partial)
    folder = state_folder(environment, directory or Path.cwd())
    state = read_state(folder)
    if state is None:
        return Endpoint("", "aws", region)
    refuse_two_meanings(environment, folder)
    by_dev = state.version == IN_PROCESS
    return Endpoint(
        state.endpoint,
        "embedded",
        state.region,
        state.key,
        by_dev,
        run_line=state.run_line,
    )


def named_url(environment: Mapping[str, str], name: str) -> str:
    """Return the endpoint that a variable names; empty: none.

    Raises:
        UsageError: `config.setting.invalid`: it is not a URL.
    """
    url = environment.get(name, "")
    with suppress(ValueError):
        parts = urlsplit(url)
        is_web = parts.scheme in {"http", "https"} and parts.hostname
        if not url or (is_web and parts.port != 0):
            return url
    message = f"{name} is {url!r}, which is not a URL."
    step = "Write it as http://localhost:4566, or unset it."
    raise UsageError(message, code="config.setting.invalid", next_step=step)


def refuse_two_meanings(environment: Mapping[str, str], folder: Path) -> None:
    """Raise if an account is named, and the embedded AWS was only found.

    A file that another person left in a parent folder must not redirect documents that
    are meant for an account.

    Raises:
        UsageError: `embedded.state.ambiguous`.
    """
    account = next((name for name in ACCOUNT_VARIABLES if environment.get(name)), None)
    if account is None or environment.get("PIECEWORK_STATE_DIR"):
        return
    raise UsageError(
        f"{account} names an AWS account, and {folder} belongs to an embedded AWS.",
        code="embedded.state.ambiguous",
        next_step=f"For the embedded AWS set PIECEWORK_STATE_DIR={folder}."
        f" For the account run `piecework down`, or work in another folder.",
    )


def state_folder(environment: Mapping[str, str], directory: Path) -> Path:
    """Return the state folder: the configured, the nearest parent's, or a new one."""
    named = environment.get("PIECEWORK_STATE_DIR")
    if named:
        return Path(named).absolute()
    here = directory.absolute()
    for place in (here, *here.parents):
        if (place / STATE_FOLDER / STATE_FILE).is_file():
            return place / STATE_FOLDER
    return here / STATE_FOLDER


def read_state(folder: Path) -> Emulator | None:
    """Return the content of the state file; None without one.

    Raises:
        UsageError: `embedded.state.unreadable`; `embedded.state.foreign`: another user
            owns the file, or it names another machine.
    """
    path = folder / STATE_FILE
    try:
        with path.open(encoding="utf-8") as file:
            owner = os.fstat(file.fileno()).st_uid
            fields = json.load(file)
        found = Emulator(
            endpoint=str(fields["endpoint"]),
            pid=int(fields["pid"]),
            region=str(fields["region"]),
            version=str(fields["version"]),
            key=str(fields.get("key", "")),
            run_line=str(fields.get("run_line", "")),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        step = "Set PIECEWORK_STATE_DIR to a folder of your own."
        raise UsageError(
            message, code="embedded.state.unreadable", next_step=step
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path} is not a state file of `piecework up`."
        step = f"Remove {path}, then run `piecework up`."
        raise UsageError(
            message, code="embedded.state.unreadable", next_step=step
        ) from error
    if owner == os.getuid() and is_loopback(found.endpoint):
        return found
    wrong = (
        "belongs to another user"
        if owner != os.getuid()
        else f"names {found.endpoint}, which is not an address of this machine"
    )
    raise UsageError(
        f"{path} {wrong}.",
        code="embedded.state.foreign",
        next_step=f"Remove {path}, or set PIECEWORK_STATE_DIR to a folder of your own.",
    )


@cache  # each poll asks for the one endpoint of the process
def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine, without a DNS request."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# ── correct the local clock by the `Date` header of AWS responses ─────────────
#
# One machine writes leases and delays, and others read them. The local clock may differ
# from AWS by more than the responses allow. Then it is corrected as if the last
# response had taken no time. Correctness does not depend on it. But a worker with a
# fast clock would take the chunks of living workers. One with a slow clock would wait
# too long.

#: Seconds between two observations, once the offset is known to CLOSE_S seconds.
EVERY_S = 10.0
CLOSE_S = 2.0
#: `Date` has whole seconds: the service's time was up to this much later.
RESOLUTION_S = 1.0


@dataclass(slots=True)
class ServiceClock:
    """A clock; calling it returns the seconds since 1970.

    Attributes:
        local: The clock of this machine.
        offset: Seconds that are added to the local clock.
    """

    local: Callable[[], float] = time.time
    offset: float = 0.0
    _least: float = -inf
    _most: float = inf
    _observed_at: float = -inf

    def __call__(self) -> float:
        """Return the corrected time in seconds since 1970."""
        return self.local() + self.offset

    def due(self) -> bool:
        """Return whether to observe the next response; also after a clock jump."""
        known = self._most - self._least <= CLOSE_S
        return not known or abs(self.local() - self._observed_at) >= EVERY_S

    def observe(self, sent_at: float, answer: Mapping[str, Any]) -> None:
        """Update the offset from the response to a request sent at `sent_at`.

        `sent_at` is local time. The service wrote its date between then and now. So the
        true offset lies in [date - now, date + 1 s - sent_at]. The interval of earlier
        responses narrows it further. If both exclude each other, a clock was set, and
        the earlier interval is dropped.
        """
        date = read_date(answer)
        if date is None:
            return
        now = self.local()
        least, most = date - now, date + RESOLUTION_S - sent_at
        if max(least, self._least) <= min(most, self._most):
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most, self._observed_at = least, most, now
        # After retries the response belongs to the last attempt.
        nearest = min(least + RESOLUTION_S / 2, most)
        self.offset = 0.0 if least <= 0.0 <= most else nearest


def read_date(answer: Mapping[str, Any]) -> float | None:
    """Return the date of a response in seconds since 1970; None if it is missing.

    A malformed date does not fail the request, which was executed.
    """
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return None if date.tzinfo is None else date.timestamp()
