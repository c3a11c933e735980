"""Deploy the data stack into an emulator; a second deploy changes nothing.

MiniStack silently ignores some settings of the template. They are the bucket's
lifecycle, and of the tables expiry (TTL), point-in-time recovery and encryption. Jobs
do not depend on them, and a test of the template checks them.

Unlike `piecework infra`, this uses no change set, because there is nothing to review.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from piecework.aws.endpoint import Emulator
from piecework.errors import PieceworkError, UnreachableError, UsageError
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.stack import READY, Stack, has_succeeded
from piecework_orchestrator.infra.templates import Part, stack_name

PATIENCE_S = 120.0


#: The parameters of the data stack that name the queues of pipelines.
QUEUES = ("Queue1", "Queue2", "Queue3")


def deploy_embedded(
    emulator: Emulator, app: str, env: str, queues: Collection[str] = ()
) -> None:
    """Deploy into the embedded emulator, with at least these queues of pipelines."""
    cloudformation = make_client("cloudformation", emulator)
    try:
        deploy_data_stack(cloudformation, app, env, queues)
    finally:
        cloudformation.close()


def deploy_data_stack(
    cloudformation: Any,
    app: str,
    env: str,
    queues: Collection[str] = (),
    *,
    poll_s: float = 0.05,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Create or update the data stack with the given CloudFormation client.

    Raises:
        UnreachableError: `embedded.deploy.failed`.
        UsageError: `embedded.queues.too_many`.
    """
    stack = Stack(cloudformation, stack_name(app, env, Part.DATA), sleep, poll_s)
    try:
        update_stack(stack, {"App": app, "Env": env}, queues)
    except UsageError:
        raise
    except PieceworkError as error:
        raise deploy_error(stack.name, error.message) from error


def update_stack(
    stack: Stack, parameters: dict[str, str], queues: Collection[str]
) -> None:
    """Create or update the stack if template or parameters differ, and wait for it."""
    template = templates.load(Part.DATA)
    found = stack.find()
    parameters |= queue_parameters(found.parameters if found else {}, queues)
    up_to_date = (
        found is not None
        and found.status in READY
        and parameters.items() <= found.parameters.items()
        and stack.template() == template.text
    )
    if up_to_date:
        return
    stack.create_or_update(template, parameters, new=found is None)
    after = stack.wait_until_finished(round(PATIENCE_S / stack.poll_s))
    if after is None:
        raise deploy_error(stack.name, f"still not complete after {PATIENCE_S:.0f} s")
    if not has_succeeded(after.status):
        reason = after.reason or "no reason given"
        raise deploy_error(stack.name, f"{after.status}: {reason}")


def queue_parameters(
    present: Mapping[str, str], queues: Collection[str]
) -> dict[str, str]:
    """Return the parameters of the queues of a stack, and of further ones.

    Raises:
        UsageError: `embedded.queues.too_many`.
    """
    known = [present[name] for name in QUEUES if present.get(name)]
    wanted = list(dict.fromkeys([*known, *queues]))
    if len(wanted) > len(QUEUES):
        message = f"{', '.join(wanted)} are more than {len(QUEUES)} queues."
        raise UsageError(message, code="embedded.queues.too_many")
    return dict(zip(QUEUES, wanted, strict=False))


def deploy_error(name: str, reason: str) -> UnreachableError:
    """Return the error for a stack that could not be deployed."""
    return UnreachableError(
        f"The stack {name} could not be deployed: {reason}",
        code="embedded.deploy.failed",
        next_step="Run `piecework down`, then `piecework up`.",
        stack=name,
    )


# ── AWS clients for the emulator that ignore the user's AWS configuration ─────

ACCESS_KEY = "embedded"  # no secret: the emulator checks no signature


def make_client(service: str, emulator: Emulator) -> Any:
    """Return a client for one service of the emulator.

    It ignores the user's profile, configuration file, keys and proxies. A broken
    profile must not stop the embedded AWS, and a valid one must not be used.
    """
    import boto3
    import botocore.session
    from botocore.config import Config

    unset = (None, None, None, None)
    core = botocore.session.Session({"profile": unset, "config_file": unset})
    session = boto3.Session(
        aws_access_key_id=emulator.key or ACCESS_KEY,
        aws_secret_access_key=ACCESS_KEY,
        region_name=emulator.region,
        botocore_session=core,
    )
    config = Config(
        connect_timeout=2,
        read_timeout=30,
        proxies={},
        retries={"total_max_attempts": 2},
    )
    return session.client(service, endpoint_url=emulator.endpoint, config=config)
