"""What operators do with webhooks: set, remove and try them, send deliveries again.

A webhook stores references to its secrets, never the secrets. A reference names a
variable of the reconciler. A deployment fills these variables from Secrets Manager or
Parameter Store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.schema import SCHEMA
from piecework.domain.webhook import (
    EVENTS,
    FORMATS,
    LOOKED_FOR,
    REFERENCE,
    TEST,
    VARIABLES,
    Webhook,
    WebhookDelivery,
    WebhookEvent,
    event_id,
)
from piecework.errors import NotFoundError, UsageError
from piecework.runtime import Runtime
from piecework.store.fleet_events import fleet_event
from piecework.store.occasions import watch_mark
from piecework.store.outbox import (
    FAILED,
    Outbox,
    delivery_puts,
    read_webhook,
    webhooks_of,
)
from piecework.store.table import ItemWrite
from piecework.webhooks.address import check_url, read_networks

#: Webhooks of a tenant: the transaction that ends a job has two writes for each.
MOST = 20
#: The longest time after which a state that lasts is told.
LONGEST_S = 30 * 86_400
_VARIABLE = re.compile(rf"{REFERENCE}{VARIABLES}[A-Z0-9_]{{1,64}}\Z")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What an operator wants a webhook to be; see `Webhook`."""

    name: str
    url: str
    secret: str = ""
    format: str = "json"
    events: Sequence[str] = ()
    pipeline: str = ""
    after_s: int = 0


async def set_webhook(
    rt: Runtime, wanted: Subscription, actor: str, reason: str = ""
) -> dict[str, Any]:
    """Create or replace a webhook; return it as views show it.

    Raises:
        UsageError: `webhook.subscription.invalid`; `webhook.address.refused`.
    """
    check(rt, wanted)
    hooks = {hook.name: hook for hook in await list_hooks(rt)}
    before = hooks.pop(wanted.name, None)
    if len(hooks) >= MOST:
        raise invalid(f"A tenant has {MOST} webhooks at most.")
    item = {
        "v": SCHEMA,
        "url": wanted.url,
        "secret": wanted.secret,
        "format": wanted.format,
        "events": sorted(set(wanted.events)),
        "pipeline": wanted.pipeline,
        "after_s": wanted.after_s,
        "set_by": actor,
        "set_at": iso(rt.clock()),
        **({} if before is None else before.pick(("failed_at", "last_error"))),
    }
    hook, tenant = Webhook({**item, "sk": wanted.name}), rt.settings.tenant
    pk = keys.webhooks_pk(tenant)
    actions = [rt.table.item_write("Put", pk, wanted.name, item=item)]
    actions.append(act(rt, "webhook set", wanted.name, actor, reason))
    if any(map(hook.wants, LOOKED_FOR)):
        actions.append(watch_mark(rt.table, tenant))
    await rt.table.transact(actions)
    return shown(hook)


def act(rt: Runtime, event: str, name: str, actor: str, reason: str) -> ItemWrite:
    """Return the write of the event of an operator's act on a webhook."""
    told = {"webhook": name, "actor": actor, "reason": reason}
    return fleet_event(rt.table, rt.settings.tenant, event, rt.clock(), told)


def check(rt: Runtime, wanted: Subscription) -> None:
    """Refuse a webhook that could not be delivered, or would store a secret.

    Raises:
        UsageError: `webhook.subscription.invalid`; `webhook.address.refused`.
    """
    if not keys.is_name(wanted.name):
        raise invalid("A name has letters, digits, '-' and '_', 64 at most.")
    if wanted.format not in FORMATS:
        raise invalid(f"A format is one of {', '.join(FORMATS)}.")
    unknown = sorted(set(wanted.events) - EVENTS.keys())
    if unknown:
        message = (
            f"{unknown[0]!r} is not an event. The events are: {', '.join(EVENTS)}."
        )
        raise invalid(message)
    if wanted.after_s < 0 or wanted.after_s > LONGEST_S:
        raise invalid("The span of --after is between a second and 30 days.")
    if wanted.pipeline and not keys.is_name(wanted.pipeline):
        raise invalid(f"{wanted.pipeline!r} is not the name of a pipeline.")
    if wanted.secret and not _VARIABLE.match(wanted.secret):
        raise invalid(f"Name the variable of the secret: {REFERENCE}{VARIABLES}….")
    if wanted.format == "json" and not wanted.secret:
        raise invalid("A webhook with the format json is signed: name its --secret.")
    check_address(rt, wanted)


def check_address(rt: Runtime, wanted: Subscription) -> None:
    """Refuse an address that could not be reached, or would store a secret.

    Raises:
        UsageError: `webhook.subscription.invalid`; `webhook.address.refused`.
    """
    if wanted.url.startswith(REFERENCE):
        if not _VARIABLE.match(wanted.url):
            raise invalid(f"Name the variable of the URL: {REFERENCE}{VARIABLES}….")
    elif wanted.format == "slack":
        raise invalid(
            "The URL of a Slack webhook is a secret:"
            f" name its variable, {REFERENCE}{VARIABLES}…."
        )
    else:
        check_url(wanted.url, read_networks(rt.settings.webhook_networks))


async def list_hooks(rt: Runtime) -> list[Webhook]:
    """Return the webhooks of the tenant."""
    return await webhooks_of(rt.table, rt.settings.tenant)


async def list_webhooks(rt: Runtime) -> list[dict[str, Any]]:
    """Return the webhooks of the tenant, with the number of deliveries by state."""
    counts: dict[str, dict[str, int]] = {}
    for delivery in await outbox(rt).deliveries():
        states = counts.setdefault(delivery.webhook, {})
        states[delivery.state] = states.get(delivery.state, 0) + 1
    hooks = await list_hooks(rt)
    return [shown(hook) | {"deliveries": counts.get(hook.name, {})} for hook in hooks]


async def show_webhook(rt: Runtime, name: str) -> dict[str, Any]:
    """Return a webhook and its deliveries, the newest first.

    Raises:
        NotFoundError: `webhook.record.not_found`.
    """
    hook = await require(rt, name)
    deliveries = await outbox(rt).deliveries(name)
    return shown(hook) | {
        "deliveries": [delivery.document() for delivery in deliveries]
    }


async def remove_webhook(rt: Runtime, name: str, actor: str, reason: str = "") -> None:
    """Remove a webhook; its pending deliveries fail at their next attempt.

    Raises:
        NotFoundError: `webhook.record.not_found`.
    """
    hook = await require(rt, name)
    pk = keys.webhooks_pk(rt.settings.tenant)
    delete = rt.table.item_write("Delete", pk, hook.name)
    await rt.table.transact([delete, act(rt, "webhook removed", name, actor, reason)])


async def retry_failed(
    rt: Runtime, name: str, event: str = "", actor: str = "", reason: str = ""
) -> list[WebhookDelivery]:
    """Send the failed deliveries of a webhook again, or one of them; return them.

    Raises:
        NotFoundError: `webhook.record.not_found`.
    """
    hook = await require(rt, name)
    failed = [n for n in await outbox(rt).deliveries(name) if n.state == FAILED]
    forgets = hook.failed_at and (not event or [n.event for n in failed] == [event])
    if event:
        failed = [delivery for delivery in failed if delivery.event == event]
        if not failed:
            message = f"Webhook {name} has no failed event {event}."
            raise NotFoundError(message, code="webhook.record.not_found")
    sent = [each for each in failed if await outbox(rt).retry_failed(each)]
    if sent:
        await rt.table.transact([act(rt, "webhook retried", name, actor, reason)])
    if forgets:  # last: after a death before it, the views still show the failure
        await outbox(rt).forget_failure(hook)
    return sent


async def send_test(rt: Runtime, name: str, actor: str) -> str:
    """Write a test event for a webhook; return the event's id.

    Raises:
        NotFoundError: `webhook.record.not_found`.
    """
    hook, now, tenant = await require(rt, name), rt.clock(), rt.settings.tenant
    event = WebhookEvent(
        kind=TEST,
        id=event_id(tenant, name, TEST, f"{rt.rng.getrandbits(128):032x}"),
        at=iso(now),
        tenant=tenant,
        text=f"{actor} tests the webhook {name}.",
        command=f"piecework webhooks show {name}",
    )
    every = Webhook({**hook.item, "events": [], "pipeline": ""})
    told = act(rt, "webhook tested", name, actor, "")
    await rt.table.transact([*delivery_puts(rt.table, [every], event, now), told])
    return event.id


async def require(rt: Runtime, name: str) -> Webhook:
    """Return a webhook.

    Raises:
        NotFoundError: `webhook.record.not_found`.
    """
    hook = await read_webhook(rt.table, rt.settings.tenant, name)
    if hook is None:
        message = f"Webhook {name} does not exist."
        raise NotFoundError(message, code="webhook.record.not_found")
    return hook


def outbox(rt: Runtime) -> Outbox:
    """Return the outbox of the tenant."""
    return Outbox(rt.table, rt.settings.tenant, rt.clock)


def shown(hook: Webhook) -> dict[str, Any]:
    """Return a webhook as views show it."""
    return {
        "webhook": hook.name,
        "url": hook.url,
        "secret": hook.secret,
        "format": hook.format,
        "events": list(hook.events) or list(EVENTS),
        "pipeline": hook.pipeline,
        "after_s": hook.after_s,
        "failed_at": hook.failed_at,
        "last_error": hook.last_error,
        "set_by": hook.item.get("set_by"),
        "set_at": hook.item.get("set_at"),
    }


def invalid(message: str) -> UsageError:
    """Return the error of an option that is not valid."""
    return UsageError(message, code="webhook.subscription.invalid")
