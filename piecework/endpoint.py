"""Find the AWS endpoint: from the environment, else from the state of `piecework up`.

On AWS neither exists, and the SDK's own chain of credentials and regions applies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
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
#: The embedded AWS requires a signature and does not check it.
DUMMY_CREDENTIALS = {
    "aws_access_key_id": "embedded",
    "aws_secret_access_key": "embedded",
}


@dataclass(frozen=True, slots=True)
class Emulator:
    """The address and the process of the embedded AWS."""

    endpoint: str
    pid: int
    region: str
    version: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of AWS, and the source of that information.

    Attributes:
        url: The endpoint; empty for AWS itself, or if each service has its own.
        source: `environment`, `embedded` or `aws`.
        region: Empty if the SDK's own configuration applies.
    """

    url: str
    source: str
    region: str

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine, where mistakes cost nothing."""
        return is_loopback(self.url)

    def session_arguments(self) -> dict[str, Any]:
        """Return the arguments of a boto session."""
        region = {"region_name": self.region} if self.region else {}
        return region | (DUMMY_CREDENTIALS if self.source == "embedded" else {})

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of each client."""
        return {"endpoint_url": self.url} if self.source == "embedded" else {}


def find_endpoint(
    environment: Mapping[str, str] = os.environ, directory: Path | None = None
) -> Endpoint:
    """Return the endpoint of AWS.

    botocore reads only `AWS_DEFAULT_REGION`; ECS and most users set `AWS_REGION`, so
    this function reads both.
    """
    region = environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION", "")
    named = [url for name in ENDPOINT_VARIABLES if (url := environment.get(name))]
    if named:
        # An emulator accepts any region; a private AWS endpoint needs the true one.
        some = DEFAULT_REGION if all(map(is_loopback, named)) else ""
        return Endpoint(named[0], "environment", region or some)
    state = read_state(state_folder(environment, directory or Path.cwd()))
    if state is not None:
        return Endpoint(state.endpoint, "embedded", state.region)
    return Endpoint("", "aws", region)


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
        UsageError: `embedded.state.unreadable`.
    """
    path = folder / STATE_FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Emulator(
            endpoint=str(fields["endpoint"]),
            pid=int(fields["pid"]),
            region=str(fields["region"]),
            version=str(fields["version"]),
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


def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine, without a DNS request."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
