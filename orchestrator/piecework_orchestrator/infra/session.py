"""The AWS account and region that a command works on, and clients for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from piecework.aws.endpoint import Endpoint, find_endpoint, is_loopback
from piecework.aws.login import read_logins
from piecework.aws.trust import mend_client
from piecework_orchestrator.infra.change_set import Change
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.errors import translated_aws_errors
from piecework_orchestrator.infra.stack import POLL_S, Stack
from piecework_orchestrator.infra.templates import Part


@dataclass(frozen=True, slots=True)
class AwsSession:
    """An account and a region, with clients for its services.

    Attributes:
        make_client: Returns a client for the service of that name.
        sleep: Waits for some seconds.
    """

    make_client: Callable[[str], Any]
    cloudformation: Any
    account: str
    region: str
    endpoint: Endpoint
    sleep: Callable[[float], object] = field(default=time.sleep)

    def stack(self, environment: Environment, part: Part) -> Stack:
        """Return one stack of an environment."""
        # An emulator finishes at once, so a long poll interval would only delay.
        poll_s = 0.05 if is_loopback(self.endpoint.url) else POLL_S
        name = environment.stack(part)
        return Stack(self.cloudformation, name, self.sleep, poll_s)

    def __str__(self) -> str:
        """Return account and region in words."""
        return f"account {self.account}, {self.region}"


def open_session(region: str) -> AwsSession:
    """Find endpoint, account and region as every other command does.

    Args:
        region: Overrides the configured region if it is not empty.

    Raises:
        UsageError: `config.region.missing`, `aws.credentials.missing`,
            `aws.credentials.invalid`.
        UnreachableError: `aws.endpoint.unreachable`.
    """
    endpoint = find_endpoint()
    with translated_aws_errors("the account", "sts"):
        make_client = _client_factory(endpoint, region)
        sts, cloudformation = make_client("sts"), make_client("cloudformation")
        account = str(sts.get_caller_identity()["Account"])
    used_region = str(cloudformation.meta.region_name)
    return AwsSession(make_client, cloudformation, account, used_region, endpoint)


def _client_factory(endpoint: Endpoint, region: str) -> Callable[[str], Any]:
    import boto3
    import botocore.session
    from botocore.config import Config

    unset = (None, None, None, None)
    # As in piecework.runtime: never use the user's profiles for the embedded AWS.
    unread = {"profile": unset, "config_file": unset}
    overrides = unread if endpoint.source == "embedded" else None
    core = botocore.session.Session(overrides)
    if overrides is None:
        read_logins(core)
    session = boto3.Session(
        region_name=region or endpoint.region or None, botocore_session=core
    )
    config = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"mode": "standard", "total_max_attempts": 5},
    )

    def make_client(service: str) -> Any:
        arguments = endpoint.client_arguments()
        if region:
            arguments["region_name"] = region
        client = session.client(service, config=config, **arguments)
        mend_client(client)
        return client

    return make_client


# ── progress and questions of the infra code ──────────────────────────────────


class Interaction(Protocol):
    """Reports progress, shows changes and asks for confirmation."""

    def report(self, text: str) -> None:
        """Report one line of progress."""

    def show_changes(self, stack: str, changes: Sequence[Change]) -> None:
        """Show the planned changes of one stack."""

    def confirm(self, action: str) -> None:
        """Return if the user confirms the action.

        Raises:
            UsageError: `cli.confirmation.needed`.
        """
