"""Do what is due in an outbox: any number of processes may, each with its claims.

A process may die between a delivery and its record. Then another process delivers the
same event again. The receiver ignores the repetition by the event's id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.domain.moments import moment
from piecework.domain.records import MALFORMED_ERRORS
from piecework.domain.webhook import (
    ATTEMPTS,
    DELAYS_S,
    Webhook,
    WebhookDelivery,
    with_link,
)
from piecework.errors import PermanentError, SchemaTooNewError, UsageError
from piecework.jobs.escalation import act_on_rung
from piecework.runtime import Runtime
from piecework.store.outbox import DueMark, Outbox, RungMark, read_webhook
from piecework.webhooks.address import read_networks, read_reference
from piecework.webhooks.answer_links import AnswerLinks
from piecework.webhooks.sender import Answer, Post, Send, Sender

if TYPE_CHECKING:
    import structlog

#: Seconds of a claim, in timeouts: the request, and the writes before and after it.
CLAIM_TIMEOUTS = 3
#: Seconds for which a process waits for the next due delivery. Then a pass starts anew.
STAY_S = 5.0
#: The longest delay is so much of the planned one: not all retries come at once.
JITTER = 0.1


@dataclass(slots=True)
class Deliverer:
    """The deliveries of one process.

    Attributes:
        send: Sends a delivery; by default over HTTPS.
    """

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    send: Send | None = None
    _running: dict[str, asyncio.Task[Counter[str]]] = field(default_factory=dict)

    def start(self, tenants: set[str]) -> None:
        """Deliver in the background, so that no pass waits for a slow receiver."""
        for tenant, task in [*self._running.items()]:
            if task.done():
                del self._running[tenant]
        for tenant in tenants - self._running.keys():
            self._running[tenant] = asyncio.create_task(self.deliver(tenant))

    async def stop(self) -> None:
        """Stop the deliveries; their claims end by themselves."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def deliver(self, tenant: str, stay_s: float = STAY_S) -> Counter[str]:
        """Send the due deliveries of a tenant; return the number of each outcome.

        Wait for deliveries that are due within `stay_s`, such as a first retry.
        What cannot be read is left to a later pass, or to a newer process.
        """
        outcomes: Counter[str] = Counter()
        left = set[DueMark | RungMark]()
        outbox = Outbox(self.rt.table, tenant, self.rt.clock)
        try:
            while marks := await outbox.first_due(left):
                now = self.rt.clock()
                due = [mark for mark in marks if moment(mark.due_at) <= now]
                if not due:
                    wait = moment(marks[0].due_at) - now
                    if wait > stay_s:
                        return outcomes
                    await asyncio.sleep(max(wait, 0.001))
                    continue
                outcomes += Counter(
                    await asyncio.gather(*(self._one(outbox, m, left) for m in due))
                )
            await outbox.close()
        except Exception:  # noqa: BLE001 -- logged with its traceback; a pass starts anew
            telemetry.emit(self.log, "webhook.delivery_interrupted", tenant=tenant)
        return outcomes

    async def _one(
        self, outbox: Outbox, mark: DueMark | RungMark, left: set[DueMark | RungMark]
    ) -> str:
        """Handle what is due, unless it cannot be read; return the outcome."""
        try:
            return await self._handle(outbox, mark)
        except SchemaTooNewError:
            left.add(mark)
            return "left to a newer version"
        except (PermanentError, *MALFORMED_ERRORS):
            telemetry.emit(
                self.log, "webhook.delivery_interrupted", tenant=outbox.tenant
            )
            left.add(mark)
            return "unreadable"

    async def _handle(self, outbox: Outbox, mark: DueMark | RungMark) -> str:
        """Send one delivery, or act on a rung; return the outcome."""
        if isinstance(mark, RungMark):
            return await act_on_rung(self.rt, self.log, mark)
        settings = self.rt.settings
        delivery = await outbox.take(mark, settings.webhook_timeout_s * CLAIM_TIMEOUTS)
        if delivery is None:
            return "webhook claimed elsewhere"
        webhook = await read_webhook(self.rt.table, outbox.tenant, delivery.webhook)
        answer = await self._send(webhook, delivery, outbox.tenant)
        facts: dict[str, Any] = {
            "webhook": delivery.webhook,
            "about": delivery.kind,
            "event_id": mark.event,
        }
        if not answer.reason:
            await outbox.mark_delivered(delivery)
            telemetry.emit(self.log, "webhook.delivered", **facts)
            return "webhook delivered"
        attempts = delivery.attempts + 1
        facts |= {"attempts": attempts, "reason": answer.reason}
        if webhook is None or attempts >= ATTEMPTS:
            await outbox.fail(delivery, answer.reason, noted=webhook is not None)
            telemetry.emit(
                self.log,
                "webhook.failed",
                error_code="webhook.delivery.failed",
                **facts,
            )
            return "webhook failed"
        delay = DELAYS_S[attempts - 1] * (1 + self.rt.rng.uniform(0, JITTER))
        await outbox.schedule_retry(delivery, delay, answer.reason)
        telemetry.emit(
            self.log, "webhook.attempt_failed", delay_s=round(delay, 3), **facts
        )
        return "webhook retry scheduled"

    async def _send(
        self, webhook: Webhook | None, delivery: WebhookDelivery, tenant: str
    ) -> Answer:
        """Send a delivery to the address that its webhook has now."""
        if webhook is None:
            return Answer("the webhook was removed")
        settings = self.rt.settings
        try:
            body = self._body(delivery, tenant)
            url, secret = read_reference(webhook.url), read_reference(webhook.secret)
            networks = read_networks(settings.webhook_networks)
        except UsageError as error:
            return Answer(error.message)
        send = self.send or Sender(settings.webhook_timeout_s, networks)
        now = self.rt.clock()
        return await send(Post(url, secret, delivery.event, body, now))

    def _body(self, delivery: WebhookDelivery, tenant: str) -> str:
        """Return the body of a delivery, with a link if it asks and links are on.

        No table has the link: everyone with it may answer. An endpoint accepts only the
        links of its tenant, which need not be that of this process.

        Raises:
            UsageError: As `AnswerLinks.configured`.
        """
        asks = delivery.asks
        if not asks:
            return delivery.body
        links = AnswerLinks.configured(replace(self.rt.settings, tenant=tenant))
        if links is None:
            return delivery.body
        return with_link(delivery.body, links.link(asks, to=asks["to"]))
