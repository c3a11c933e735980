"""The one place where error codes become statuses of HTTP."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from piecework import PieceworkError

#: The first row that matches a code decides.
STATUSES: Final = (
    ("job.*.not_found", 404),
    ("job.*", 409),  # the state of the job does not allow the request
    ("submit.token.conflict", 409),
    ("input.*", 422),
    ("cli.usage.invalid", 422),  # such as a key that cannot be a job id
    ("cli.wait.timeout", 504),
    ("aws.*", 503),
)
#: Every other error is a fault of the service: its settings, its pipeline.
FAULT: Final = 500
#: Seconds after which a client may repeat a request that found AWS unavailable.
RETRY_AFTER_S: Final = "5"


def answer_errors(app: FastAPI) -> None:
    """Answer the errors of Piecework, and of the validation, in one form."""

    @app.exception_handler(PieceworkError)
    async def of_piecework(_: Request, error: PieceworkError) -> JSONResponse:
        status = status_of(error.code)
        return answer(status, error.code, error.message, error.next_step)

    @app.exception_handler(RequestValidationError)
    async def of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{place}: {first['msg']}."
        return answer(422, "input.payload.invalid", message, "Correct the request.")


def status_of(code: str) -> int:
    """Return the status of an error code."""
    return next((s for pattern, s in STATUSES if fnmatchcase(code, pattern)), FAULT)


def answer(status: int, code: str, message: str, next_step: str) -> JSONResponse:
    """Return an error; one that a client cannot correct has its code alone."""
    error = {"code": code, "message": message, "next_step": next_step}
    if status >= FAULT:  # the message is for operators: it names tables and hosts
        error = {"code": code}
    headers = {"Retry-After": RETRY_AFTER_S} if status == 503 else None  # noqa: PLR2004
    return JSONResponse({"error": error}, status, headers)
