"""Which AWS: the account and region that a command works on, and clients for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.refusals import explained
from orchestrator.infra.stack import POLL_S, Stack
from piecework.endpoint import Endpoint, find_endpoint, is_loopback


@dataclass(frozen=True, slots=True)
class Site:
    """An account and a region.

    Attributes:
        make: Makes a client of a service.
    """

    make: Callable[[str], Any]
    cloudformation: Any
    account: str
    region: str
    endpoint: Endpoint
    pause: Callable[[float], object] = field(default=time.sleep)

    def stack(self, environment: Environment, part: Part) -> Stack:
        """Return one stack of an environment."""
        # An emulator is done at once, and nobody wants to wait for it.
        poll_s = 0.05 if is_loopback(self.endpoint.url) else POLL_S
        name = environment.stack(part)
        return Stack(self.cloudformation, name, self.pause, poll_s)

    def __str__(self) -> str:
        """Name the place as people know it."""
        return f"account {self.account}, {self.region}"


def visit(region: str) -> Site:
    """Find out where we are, as every other command does; a region may be named.

    Raises:
        UsageError: `config.region.missing`, `aws.credentials.missing`,
            `aws.credentials.invalid`.
        UnreachableError: `aws.endpoint.unreachable`.
    """
    endpoint = find_endpoint()
    with explained("the account", "sts"):
        make = _maker(endpoint, region)
        sts, cloudformation = make("sts"), make("cloudformation")
        account = str(sts.get_caller_identity()["Account"])
    where = str(cloudformation.meta.region_name)
    return Site(make, cloudformation, account, where, endpoint)


def _maker(endpoint: Endpoint, region: str) -> Callable[[str], Any]:
    import boto3
    import botocore.session
    from botocore.config import Config

    arguments = endpoint.session_arguments()
    if region:
        arguments["region_name"] = region
    if endpoint.source == "embedded":
        # As in piecework.runtime: the user's profiles are not for the embedded AWS.
        nothing = (None, None, None, None)
        own = {"profile": nothing, "config_file": nothing}
        arguments["botocore_session"] = botocore.session.Session(own)
    session = boto3.Session(**arguments)
    config = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"mode": "standard", "total_max_attempts": 5},
    )

    def make(service: str) -> Any:
        return session.client(service, config=config, **endpoint.client_arguments())

    return make
