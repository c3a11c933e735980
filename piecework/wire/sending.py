"""Send a request until it is answered, or until the SDK's own rules give it up."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from botocore.exceptions import BotoCoreError
from botocore.hooks import first_non_none_response

from piecework.wire.connections import Connections
from piecework.wire.parsing import plainly, thoroughly
from piecework.wire.route import Route
from piecework.wire.sdk import Sdk

#: An answer, as it was held and as it was read; None: there was none.
Response: TypeAlias = tuple[Any, dict[str, Any]] | None
#: The route with the credentials of the moment; None: there is none.
Renewed: TypeAlias = Callable[[], Awaitable[Route | None]]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the requests of one client."""

    sdk: Sdk
    connections: Connections
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    async def send(
        self,
        route: Route,
        body: bytes,
        model: Any,
        context: dict[str, Any],
        renewed: Renewed,
    ) -> tuple[Any, dict[str, Any]]:
        """Return the last answer.

        Each further try is signed with the credentials of its own moment.

        Raises:
            BotoCoreError: The last try brought none.
        """
        response: Response = None
        context["retries"] = {"invocation-id": invocation()}
        for attempt in count(1):
            self.sdk.note_attempt(context, attempt, response)
            request = route.request(body, self.clock(), context["retries"])
            response, failure, plain = await self._try(
                route, request, model, first=attempt == 1
            )
            await self.sdk.tell(
                "response-received",
                model,
                response_dict=None,
                parsed_response=response and response[1],
                context=context,
                exception=failure,
            )
            if plain:
                break  # nobody's rules have anything to say of it
            delay = await self._again_after(attempt, response, failure, model, context)
            if delay is None:
                break
            await self.sleep(delay)
            route = await renewed() or route
        if response is None:
            assert failure is not None  # noqa: S101 -- what else came of the try?
            raise failure
        response[1].setdefault("ResponseMetadata", {})["RetryAttempts"] = attempt - 1
        return response

    async def _try(
        self, route: Route, request: bytes, model: Any, *, first: bool
    ) -> tuple[Response, BotoCoreError | None, bool]:
        """Send it once; return its answer or failure, and if it succeeded at once."""
        try:
            answer = await self.connections.send(route, request)
        except BotoCoreError as error:
            return None, error, False
        parsed = plainly(answer) if first else None
        if parsed is not None:
            return (answer, parsed), None, True
        return await thoroughly(self.sdk, model, route.url, answer), None, False

    async def _again_after(
        self,
        attempt: int,
        response: Response,
        failure: BotoCoreError | None,
        model: Any,
        context: dict[str, Any],
    ) -> float | None:
        """Ask the SDK when to try again; None: not at all."""
        said = await self.sdk.tell(
            "needs-retry",
            model,
            response=response,
            endpoint=self.sdk.endpoint,
            operation=model,
            attempts=attempt,
            caught_exception=failure,
            request_dict={"context": context},
        )
        delay: float | None = first_non_none_response(said)
        return delay


def invocation() -> str:
    """Return an id for a request and its repetitions, of the form that the SDK gives.

    It makes an object of each first, at a twentieth of the whole request.
    """
    h = os.urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
