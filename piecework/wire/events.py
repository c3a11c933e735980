"""The events of an SDK client, told to those who listen as the SDK's own emitter does.

Each request has three. The emitter finds out anew each time who listens, and asks of
each answer whether it is to be awaited; two of its own listeners do nothing for most
operations. All of that costs more than what our listeners count.
"""

# ruff: noqa: SLF001 -- it looks where the SDK keeps who listens

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from botocore import handlers

Hearer: TypeAlias = Callable[..., Any]


class Events:
    """The events of one client.

    Raises:
        AttributeError: The SDK keeps its listeners elsewhere.
    """

    def __init__(self, events: Any, service: str) -> None:
        self._alias = events._alias_event_name
        self._emitter = events._emitter
        self._service = service
        own: Any = handlers
        self._fills_token = own.generate_idempotent_uuid
        self._sets_mode = own._handle_request_validation_mode_member
        #: The SDK begins a new one whenever somebody begins or ends to listen.
        self._of: Any = self._emitter._lookup_cache
        self._known: dict[tuple[str, str], tuple[str, Sequence[Hearer]]] = {}

    async def tell(self, event: str, model: Any, /, **said: Any) -> list[Any]:
        """Tell of an operation's event; return who heard it, each with its answer."""
        if self._emitter._lookup_cache is not self._of:
            self._of, self._known = self._emitter._lookup_cache, {}
        known = self._known.get((event, model.name))
        name, hearers = known or self._find(event, model)
        answers = []
        for hear in hearers:
            answer = hear(**said, event_name=name)
            if answer is not None and isawaitable(answer):
                answer = await answer
            answers.append((hear, answer))
        return answers

    def _find(self, event: str, model: Any) -> tuple[str, Sequence[Hearer]]:
        """Find out who listens, and remember it."""
        name = self._alias(f"{event}.{self._service}.{model.name}")
        found = self._emitter._handlers.prefix_search(name)
        idle = self._idle(model)
        hearers = [hear for hear in found if hear not in idle]
        self._known[event, model.name] = name, hearers
        return name, hearers

    def _idle(self, model: Any) -> list[Hearer]:
        """Return which listeners of the SDK's do nothing for an operation."""
        idle = []
        if not model.idempotent_members:
            idle.append(self._fills_token)
        if "requestValidationModeMember" not in model.http_checksum:
            idle.append(self._sets_mode)
        return idle
