"""Put the data stack into an emulator; a second time changes nothing.

MiniStack drops a few settings of the template without a word: expiry (TTL),
point-in-time recovery and encryption of the tables, and the bucket's lifecycle.
Nothing in the protocol waits for them, and a test of the template holds them.

There is no change set, as in `piecework infra`: nobody looks at one here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orchestrator.embedded.client import client
from orchestrator.infra import templates
from orchestrator.infra.parts import Part, stack_name
from orchestrator.infra.stack import Stack
from orchestrator.infra.standing import READY, has_succeeded
from piecework.endpoint import Emulator
from piecework.errors import PieceworkError, UnreachableError

PATIENCE_S = 120.0


def into(emulator: Emulator, app: str, env: str) -> None:
    """Deploy into the embedded emulator."""
    cloudformation = client("cloudformation", emulator)
    try:
        deploy(cloudformation, app, env)
    finally:
        cloudformation.close()


def deploy(
    cloudformation: Any,
    app: str,
    env: str,
    *,
    poll_s: float = 0.05,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Create or update the data stack with a CloudFormation client of any origin."""
    stack = Stack(cloudformation, stack_name(app, env, Part.DATA), pause, poll_s)
    try:
        put(stack, {"App": app, "Env": env})
    except PieceworkError as error:
        raise refused(stack.name, error.message) from error


def put(stack: Stack, wanted: dict[str, str]) -> None:
    """Bring the stack to the template and the parameters, and wait for it."""
    template = templates.load(Part.DATA)
    found = stack.find()
    current = (
        found is not None
        and found.status in READY
        and wanted.items() <= found.parameters.items()
        and stack.template() == template.text
    )
    if current:
        return
    stack.create_or_update(template, wanted, new=found is None)
    after = stack.wait_until_finished(round(PATIENCE_S / stack.poll_s))
    if after is None:
        raise refused(stack.name, f"still not complete after {PATIENCE_S:.0f} s")
    if not has_succeeded(after.status):
        reason = after.reason or "no reason given"
        raise refused(stack.name, f"{after.status}: {reason}")


def refused(name: str, why: str) -> UnreachableError:
    """Return the error of a stack that is not there as it should be."""
    return UnreachableError(
        f"The stack {name} could not be deployed: {why}",
        code="embedded.deploy.failed",
        next_step="run `piecework down`, then `piecework up`",
        stack=name,
    )
