"""Send a request until it has an answer, or the SDK's rules end the retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, TypeAlias

from aiobotocore.awsrequest import AioAWSResponse
from botocore.exceptions import BotoCoreError, HTTPClientError
from botocore.hooks import first_non_none_response

from piecework.aws.transport.answer import (
    Answer,
    matches_checksum,
    parse_success,
)
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.genuine import genuine_answer
from piecework.aws.transport.request import Route, new_invocation_id
from piecework.aws.transport.sdk import Sdk

#: An answer as received and as parsed; None if there is not one.
Response: TypeAlias = tuple[Any, dict[str, Any]] | None
#: Returns the route with the current credentials; None if there is not one.
FindRoute: TypeAlias = Callable[[], Awaitable[Route | None]]


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
        find_route: FindRoute,
    ) -> tuple[Any, dict[str, Any]]:
        """Return the last answer.

        Each retry is signed with the credentials of its own time.

        Raises:
            BotoCoreError: The last attempt had no answer, or its body was damaged. The
                SDK accepts a damaged body after its last attempt.
        """
        response: Response = None
        context["retries"] = {"invocation-id": new_invocation_id()}
        for attempt in count(1):
            self.sdk.note_attempt(context, attempt, response)
            request = route.request(body, self.clock(), context["retries"])
            response, failure, succeeded = await self._send_once(
                route, request, model, first=attempt == 1
            )
            await self.sdk.emit(
                "response-received",
                model,
                response_dict=None,
                parsed_response=response and response[1],
                context=context,
                exception=failure,
            )
            if succeeded:
                break  # no rule retries a plain success
            delay = await self._retry_delay(attempt, response, failure, model, context)
            if delay is None:
                break
            await self.sleep(delay)
            route = await find_route() or route
        if response is None:
            assert failure is not None  # noqa: S101 -- without an answer there is one
            raise failure
        raw = response[0].raw if isinstance(response[0], AioAWSResponse) else None
        if raw is not None and not matches_checksum(raw):
            raise HTTPClientError(error="the body does not match its checksum")
        response[1].setdefault("ResponseMetadata", {})["RetryAttempts"] = attempt - 1
        return response

    async def _send_once(
        self, route: Route, request: bytes, model: Any, *, first: bool
    ) -> tuple[Response, BotoCoreError | None, bool]:
        """Return the answer, the failure, and whether the first attempt succeeded."""
        try:
            answer = await self.connections.send(route, request)
        except BotoCoreError as error:
            return None, error, False
        answer = genuine_answer(route.url, self.sdk.service, answer)
        parsed = parse_success(answer) if first else None
        if parsed is not None:
            return (answer, parsed), None, True
        return await parse_with_sdk(self.sdk, model, route.url, answer), None, False

    async def _retry_delay(
        self,
        attempt: int,
        response: Response,
        failure: BotoCoreError | None,
        model: Any,
        context: dict[str, Any],
    ) -> float | None:
        """Return the seconds until the next attempt; None to stop. The SDK decides."""
        results = await self.sdk.emit(
            "needs-retry",
            model,
            response=response,
            endpoint=self.sdk.endpoint,
            operation=model,
            attempts=attempt,
            caught_exception=failure,
            request_dict={"context": context},
        )
        delay: float | None = first_non_none_response(results)
        return delay


async def parse_with_sdk(
    sdk: Sdk, model: Any, url: str, answer: Answer
) -> tuple[AioAWSResponse, dict[str, Any]]:
    """Return an answer as an object of the SDK, and as the SDK's parser reads it."""
    response = {
        "headers": answer.headers,
        "status_code": answer.status_code,
        "context": {"operation_name": model.name},
        "body": answer.body,
    }
    parsed = await sdk.parser.parse(response, model.output_shape)
    if is_error(answer.status_code):
        await sdk.add_error_fields(response, parsed, model, sdk.parser)
    headers: Any = answer.headers
    return AioAWSResponse(url, answer.status_code, headers, answer), parsed


def is_error(status: int) -> bool:
    """Return whether the SDK takes a status for an error."""
    return status >= HTTPStatus.MULTIPLE_CHOICES
