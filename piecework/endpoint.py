"""Where AWS is: what the environment says, else what `piecework up` left behind.

On AWS neither is there, and the SDK's own chain of credentials and regions decides.
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
#: The variables that say where our own AWS is. Those of other services, such as a
#: model's, say nothing of it.
ENDPOINT_VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_S3",
)
DEFAULT_REGION = "us-east-1"
#: The embedded AWS asks for a signature and does not check it.
DUMMY_CREDENTIALS = {
    "aws_access_key_id": "embedded",
    "aws_secret_access_key": "embedded",
}


@dataclass(frozen=True, slots=True)
class Emulator:
    """Where the embedded AWS answers, and which process it is."""

    endpoint: str
    pid: int
    region: str
    version: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where AWS is, and who says so.

    Attributes:
        url: Of the endpoint; empty for AWS itself or one endpoint a service.
        source: `environment`, `embedded` or `aws`.
        region: Empty when the SDK's own configuration is to say.
    """

    url: str
    source: str
    region: str

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine, where a mistake costs nothing."""
        return is_loopback(self.url)

    def session_arguments(self) -> dict[str, Any]:
        """Return what a boto session is to be made with."""
        region = {"region_name": self.region} if self.region else {}
        return region | (DUMMY_CREDENTIALS if self.source == "embedded" else {})

    def client_arguments(self) -> dict[str, Any]:
        """Return what each client is to be made with."""
        return {"endpoint_url": self.url} if self.source == "embedded" else {}


def find_endpoint(
    environment: Mapping[str, str] = os.environ, directory: Path | None = None
) -> Endpoint:
    """Find out where AWS is.

    botocore reads `AWS_DEFAULT_REGION` only; `AWS_REGION`, which ECS and most people
    set, is mapped here.
    """
    region = environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION", "")
    named = [url for name in ENDPOINT_VARIABLES if (url := environment.get(name))]
    if named:
        # An emulator needs some region; AWS behind an address of its own, the true one.
        some = DEFAULT_REGION if all(map(is_loopback, named)) else ""
        return Endpoint(named[0], "environment", region or some)
    state = read_state(state_folder(environment, directory or Path.cwd()))
    if state is not None:
        return Endpoint(state.endpoint, "embedded", state.region)
    return Endpoint("", "aws", region)


def state_folder(environment: Mapping[str, str], directory: Path) -> Path:
    """Return the state folder: the named one, the nearest upwards, or one to make."""
    named = environment.get("PIECEWORK_STATE_DIR")
    if named:
        return Path(named).absolute()
    here = directory.absolute()
    for place in (here, *here.parents):
        if (place / STATE_FOLDER / STATE_FILE).is_file():
            return place / STATE_FOLDER
    return here / STATE_FOLDER


def read_state(folder: Path) -> Emulator | None:
    """Return what the state file says; None without one.

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
        message = f"{path} is not what `piecework up` writes."
        step = f"Remove {path}, then `piecework up`."
        raise UsageError(
            message, code="embedded.state.unreadable", next_step=step
        ) from error


def is_loopback(url: str) -> bool:
    """Say whether a URL's host is this machine, without asking DNS."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
