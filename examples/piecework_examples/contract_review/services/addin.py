"""The Word add-in as a service: four commands, each answered once per key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel, ValidationError

from piecework_examples.contract_review.services.faults import ADDIN_MIX, Fault, Faults
from piecework_examples.contract_review.services.ledger import Answer, Ledger

_CREATED: Final = 201
Act = Callable[["Command"], dict[str, Any]]


class Command(BaseModel):
    """The request of a worker."""

    job: str
    clause: int
    slot: str = ""
    findings: list[dict[str, Any]] = []
    worst: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Return what the command is about."""
        return self.job, self.clause


@dataclass(slots=True)
class AddinService:
    """The commands and their books."""

    faults: Faults = field(default_factory=lambda: Faults(mix=ADDIN_MIX))
    latency: float = 0.0
    retry_after: int = 1
    ledger: Ledger = field(default_factory=Ledger)
    tries: Counter[str] = field(default_factory=Counter)

    def routes(self) -> list[web.RouteDef]:
        """Return what the service listens to."""
        return [
            web.post("/slots", self._doing(lambda c: self.ledger.reserve(c.place))),
            web.post(
                "/slots/release", self._doing(lambda c: self.ledger.release(c.place))
            ),
            web.post(
                "/findings",
                self._doing(lambda c: self.ledger.publish(c.place, c.findings)),
            ),
            web.post(
                "/notifications", self._doing(lambda c: self.ledger.notify(c.place))
            ),
            web.get("/ledger", self.show_ledger),
        ]

    async def show_ledger(self, request: web.Request) -> web.Response:
        """Answer with the books, of `?job=` or of all."""
        return web.json_response(self.ledger.shown(request.query.get("job")))

    def _doing(self, act: Act) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            raw = await request.read()
            try:
                key = request.headers["Idempotency-Key"]
                command = Command.model_validate_json(raw)
            except KeyError:
                return _problem(400, "The header Idempotency-Key is missing.")
            except ValidationError:
                return _problem(422, "The body is not a command.")
            fault = self._drawn(request.path, command)
            await asyncio.sleep(self.latency)
            if fault is Fault.THROTTLED:
                wait = {"Retry-After": str(self.retry_after)}
                return _problem(429, "Too many requests.", wait)
            if fault is Fault.UNAVAILABLE:
                return _problem(503, "Try again later.")
            # From here to the answer nothing is awaited: a key cannot act twice.
            response = self._once(key, _name(request.path, raw), command, act)
            if fault is Fault.LOST and request.transport is not None:
                request.transport.close()
            return response

        return handle

    def _drawn(self, path: str, command: Command) -> Fault | None:
        """Draw by clause and command; the job's id differs in every run."""
        content = f"{path}:{command.clause}"
        self.tries[f"{command.job}:{content}"] += 1
        return self.faults.draw(content, self.tries[f"{command.job}:{content}"])

    def _once(self, key: str, request: str, command: Command, act: Act) -> web.Response:
        """Act, or repeat what the key was answered before."""
        known = self.ledger.answers.get(key)
        if known is None:
            known = Answer(request, _CREATED, act(command))
            self.ledger.answers[key] = known
            return web.json_response(known.body, status=known.status)
        if known.request != request:
            self.ledger.conflicts += 1
            return _problem(409, "The key was used for another request.")
        self.ledger.replays += 1
        headers = {"Idempotent-Replayed": "true"}
        return web.json_response(known.body, status=known.status, headers=headers)


def _name(path: str, raw: bytes) -> str:
    """Return what makes two requests the same, however their JSON is spaced."""
    body = json.dumps(json.loads(raw), sort_keys=True)
    return hashlib.sha256(f"{path}\n{body}".encode()).hexdigest()


def _problem(
    status: int, detail: str, headers: dict[str, str] | None = None
) -> web.Response:
    return web.json_response(
        {"status": status, "detail": detail}, status=status, headers=headers
    )
