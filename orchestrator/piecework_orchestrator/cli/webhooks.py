"""`webhooks`: set, list, show, try and remove webhooks; send failed events again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from piecework.domain.webhook import EVENTS
from piecework.runtime import Runtime
from piecework_orchestrator.cli.options import (
    Format,
    OutputOption,
    ReasonOption,
    YesOption,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import confirm, run_connected
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.operate import webhooks
from piecework_orchestrator.operate.identity import operator_of
from piecework_orchestrator.operate.webhooks import Subscription
from piecework_orchestrator.reading.times import parse_limit

WebhookArgument = Annotated[str, typer.Argument(help="The name of the webhook.")]
#: The columns of the deliveries of a webhook.
DELIVERIES = [
    Column("EVENT", "event"),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("AT", "at"),
    Column("ATTEMPTS", "attempts", right=True),
    Column("LAST ERROR", "last_error", shrinks=True),
]


def set_webhook(  # noqa: PLR0913, PLR0917 -- the options of a webhook
    webhook: WebhookArgument,
    url: Annotated[
        str,
        typer.Option(
            help="https://…, or env:PIECEWORK_WEBHOOK_… of the reconciler; required."
        ),
    ],
    secret: Annotated[
        str,
        typer.Option(help="The secret's variable: env:PIECEWORK_WEBHOOK_…."),
    ] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="json|slack", help="How it is written.")
    ] = "json",
    event: Annotated[
        list[str] | None,
        typer.Option(help=f"Only these events: {', '.join(EVENTS)}."),
    ] = None,
    pipeline: Annotated[
        str, typer.Option(help="Only events of this pipeline.", show_default=False)
    ] = "",
    after: Annotated[
        str,
        typer.Option(
            help="After how long job.stuck and breaker.open are told, such as 10m;"
            " by default PIECEWORK_WEBHOOK_AFTER_S.",
            metavar="SPAN",
            show_default=False,
        ),
    ] = "",
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Set a webhook: an address that is told of events.

    The reconciler delivers each event at least once, signed, and tries nine times
    within two days. Secrets stay in variables of the reconciler.
    """

    async def run(rt: Runtime, out: Output) -> None:
        after_s = int(parse_limit(after) or 0)
        wanted = Subscription(
            webhook, url, secret, form, event or (), pipeline, after_s
        )
        found = await webhooks.set_webhook(rt, wanted, operator_of(rt), reason)
        out.document(found, lambda console: console.print(facts(texts(found).items())))
        if out.table:
            out.say(f"next: piecework webhooks test {webhook}")

    run_connected(run, output)


def list_webhooks(output: OutputOption = Format.TABLE) -> None:
    """List the webhooks, and how many events are pending or failed."""

    async def run(rt: Runtime, out: Output) -> None:
        columns = [
            Column("WEBHOOK", "webhook"),
            Column("PIPELINE", lambda row: row["pipeline"] or "-"),
            Column("EVENTS", lambda row: ", ".join(row["events"]), shrinks=True),
            Column("PENDING", counted("PENDING"), right=True),
            Column("FAILED", counted("FAILED"), right=True),
            Column("URL", "url", shrinks=True),
        ]
        empty = "no webhook is set; next: piecework webhooks set --help"
        out.rows(await webhooks.list_webhooks(rt), columns, empty)

    run_connected(run, output)


def show_webhook(webhook: WebhookArgument, output: OutputOption = Format.TABLE) -> None:
    """Show a webhook and its events, with the reason of each failure."""

    async def run(rt: Runtime, out: Output) -> None:
        found = await webhooks.show_webhook(rt, webhook)
        if not out.table:
            out.document(found, lambda _: None)
            return
        deliveries = found.pop("deliveries")
        out.draw(lambda console: console.print(facts(texts(found).items())))
        out.rows(deliveries, DELIVERIES, "no event was written for it in the last days")
        if any(delivery["state"] == "FAILED" for delivery in deliveries):
            out.say(f"next: piecework webhooks retry {webhook}")

    run_connected(run, output)


def retry_webhook(
    webhook: WebhookArgument,
    event: Annotated[
        str, typer.Argument(help="The id of one event; without it, all that failed.")
    ] = "",
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Send the failed events of a webhook again, with nine new attempts."""

    async def run(rt: Runtime, out: Output) -> None:
        sent = await webhooks.retry_failed(rt, webhook, event, operator_of(rt), reason)
        out.rows([n.document() for n in sent], DELIVERIES, "no event of it has failed")

    run_connected(run, output)


def try_webhook(webhook: WebhookArgument, output: OutputOption = Format.TABLE) -> None:
    """Write a test event for a webhook; the reconciler delivers it."""

    async def run(rt: Runtime, out: Output) -> None:
        event = await webhooks.send_test(rt, webhook, operator_of(rt))
        found = {"webhook": webhook, "event": event}
        out.document(found, lambda console: console.print(facts(found.items())))
        if out.table:
            out.say(f"next: piecework webhooks show {webhook}")

    run_connected(run, output)


def remove_webhook(
    webhook: WebhookArgument,
    reason: ReasonOption = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Remove a webhook; its pending events are not sent any more."""

    async def run(rt: Runtime, out: Output) -> None:
        await confirm(f"Remove the webhook {webhook}", out, yes=yes)
        await webhooks.remove_webhook(rt, webhook, operator_of(rt), reason)
        found = {"webhook": webhook, "removed": True}
        out.document(found, lambda console: console.print(facts(found.items())))

    run_connected(run, output)


def counted(state: str) -> Any:
    """Return the cell of the number of deliveries in a state."""
    return lambda row: row["deliveries"].get(state, 0)


def texts(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a webhook for people."""
    return {
        name: ", ".join(value) if isinstance(value, list) else value or "-"
        for name, value in found.items()
    }
