"""Render the registry as a Markdown page, so that the page is always up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from piecework.errors.codes import BEHAVIOUR, LAYERS, REGISTRY, Code

_HEAD: Final = """\
# Error codes

Generated from `piecework/errors/` by `python -m piecework.errors.page`; do not edit.

A code has the form `layer.kind.detail`. After a release, codes are added but never
renamed, removed or moved to another class; a test checks that. The commands
`piecework explain-code` and `piecework explain-code CODE` print the same rows.

A stage may raise one of the five errors with a code of its own. The type of the error
decides the class. A code in another form than `layer.kind.detail` is stored as
`app.<code>`: a `TransientError` with the code `busy` is retried, and its code is stored
as `app.busy`.

A pipeline declares the rows of its own codes: `Pipeline(codes=[Code(…)])`, see
[dead letters](dead-letters.md#codes-of-your-own). `piecework explain-code --pipelines
MODULE` lists them.

The class of a code alone decides what the runtime does:

| class | the runtime |
| --- | --- |
{behaviours}
"""

_TITLES: Final = {
    "llm": "calls to models",
    "tool": "calls to other services",
    "aws": "SQS, DynamoDB and S3",
    "runtime": "the worker and its state",
    "input": "the input of `submit`",
    "pipeline": "the pipeline's declaration",
    "call": "the keys of calls",
    "submit": "submitting a job",
    "job": "a job as a whole",
    "redrive": "redriving dead letters",
    "idempotency": "functions wrapped with `idempotent`, and dependencies with `by`",
    "config": "settings",
    "embedded": "the emulator on this machine",
    "infra": "stacks on AWS",
    "cli": "the command line",
    "approval": "questions that stages ask people",
    "webhook": "telling other systems",
    "run": "what `piecework run` remembers",
}


def page() -> str:
    """Return the whole page, with one table for each layer."""
    behaviours = "\n".join(
        f"| `{error_class}` | {behaviour} |"
        for error_class, behaviour in BEHAVIOUR.items()
    )
    tables = [_table(layer, rows) for layer, rows in LAYERS.items()]
    return "\n".join([_HEAD.format(behaviours=behaviours), GUIDE, *tables])


def _table(layer: str, rows: tuple[Code, ...]) -> str:
    lines = [
        f"## `{layer}`: {_TITLES[layer]}",
        "",
        "| code | class | cause | what to do |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{row.code}` | {row.error_class} | {row.cause} | {row.recovery} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


# ── text of the page of error codes beside its tables ─────────────────────────

GUIDE: Final = """\
## The envelope

Every error is converted to an envelope. Its code depends on the structure of the
error (type, HTTP status, the provider's code) and never on its message. Envelopes are
stored in the chunk's error history and in its dead letter; `piecework dlq show JOB
CHUNK` shows them:

| field | content |
| --- | --- |
| `code`, `error_class` | the kind of error, and the class that decides the recovery |
| `message` | the error's message, with secrets masked, at most 512 characters |
| `http_status`, `provider_code` | the evidence, if there is any |
| `retry_after` | the seconds of the provider's Retry-After |
| `stage`, `attempt`, `at` | where and when the error occurred |
| `cause` | the chain of exceptions, each with its code, at most 256 characters |
| `correlation_id` | `job/chunk`, as in the log |
| `dependency` | the dependency that could not be called |
| `sent` | whether the request of a call was sent: `no`, `yes` or `unknown` |

Piecework recognises, without importing them, the errors of botocore (with Bedrock's),
aiohttp, httpx, requests, urllib3, urllib and gRPC. It knows the SDKs of Anthropic,
OpenAI, Google and Stripe, and databases with SQLSTATE or SQLite's codes. Errors of
other libraries with the same attributes are recognised too. A wrapper has the class of
its cause: `raise ValueError(…) from error`.

## Which errors are tried again

- **Transient** errors are, within the retry policy of the dependency.
- **What the provider asks for** comes first: `x-should-retry` and
  `stripe-should-retry`, as in the SDKs, also for a 429. These retry a 409 of a model or
  of Stripe, too: a lock has timed out. A 409 of another service is permanent.
- **A call's exception that no rule knows** has two further tries, with the delays of
  the policy. Most are of the network, of a library that no rule knows. Then it is
  `runtime.call.unhandled`, which is permanent. An effect that is `NON_IDEMPOTENT` has
  one try, and is in doubt.
- **A mistake of the program** has no further try. No answer causes a NameError, an
  ImportError, a NotImplementedError, or arguments that do not fit the called function.
  A KeyError, a TypeError or an assertion inside the function may come from an odd
  answer, so it has two further tries.
- **An exception of a stage**, outside of its calls, is permanent. The stage could be
  repeated as a whole only.
- **A certificate** that is not trusted is permanent: the same request is refused again.
  Expired credentials, and a clock that differs, are transient: they are renewed.

## Sent, not sent, or unknown

The type of an error says whether the request of its call was sent. One table,
`piecework/errors/sent.py`, has the types of aiohttp, botocore, http.client, httpx,
requests, smtplib, urllib and urllib3, and the errors of sockets and TLS.

- **Not sent**: a refused connection, a name that does not resolve, a timeout while
  connecting, no free handle, an untrusted certificate. Nothing was executed. An effect
  is not in doubt. The worker retries the call, whatever its effect. Then it defers the
  chunk, as for an open breaker, and spends no attempt for an hour. It spends attempts
  at once if the dependency answers other calls meanwhile.
- **Sent**: an answer came back, or a part of one. An effect was refused only with a 4xx
  other than 408 and 409.
- **Unknown**: any other error, such as a timeout of the answer. An effect may have
  happened.

One call is one request. The error of a function tells only of its last request. So a
function that makes more raises `TransientError("…", sent=True) from error` after the
first. The same holds for a client that repeats requests by itself: switch that off for
an effect that is `NON_IDEMPOTENT`. An error that your code raises while it handles
another tells nothing about that one, unless it says `from error`.

## Plan around an error

`envelope_of` returns the envelope of an error that `ctx.call` raised. A stage can
decide by its code. Pass `envelope.model_dump_json(exclude={"traceback"})` to a model
that plans.

```python
from pydantic import BaseModel

from piecework import Context, Dependency, PermanentError, Pipeline, Stage, envelope_of


class Text(BaseModel):
    text: str


model = Dependency("model", layer="llm")


async def count(text: str, *, idempotency_key: str) -> int:
    if len(text) > 10:  # in place of a model, and of what its SDK would raise
        raise PermanentError("The prompt is too long.", code="llm.context.overflow")
    return len(text)


async def read(ctx: Context[Text]) -> int:
    text = ctx.payload.text
    try:
        return await ctx.call(model, count, text)
    except Exception as error:
        if envelope_of(error).code != "llm.context.overflow":
            raise
    middle = len(text) // 2
    halves = text[:middle], text[middle:]
    return sum([await ctx.call(model, count, half) for half in halves])


pipeline = Pipeline(name="reading", payload=Text, stages=[Stage(read)])
```

## Errors of your own services

A dependency can declare what its errors mean. Its `classify` receives an error, or a
cause of the error. It returns one of the five Piecework errors with a code of your
own, or None. If it returns None, the structure of the error decides. `ctx.call` still
raises the original error. Pass the status with `http_status=` if there is one: a 4xx
other than 408 and 409 proves that an effect was refused and has not happened.

```python
from piecework import Dependency, PermanentError, TransientError


class TillError(Exception):
    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait_s = reason, wait_s


def meaning(error: BaseException) -> TransientError | PermanentError | None:
    if not isinstance(error, TillError):
        return None
    if error.reason != "closed":
        return PermanentError("The till refused.", code="acme.till.refused")
    wait = error.wait_s
    return TransientError("It is closed.", code="acme.till.closed", retry_after=wait)


till = Dependency("till", classify=meaning)
```

No SDK raises an error if a model refuses or its output is cut off: the answer says so.
`raise_for_stop_reason(answer)` raises the matching error for an answer of Anthropic's,
Bedrock's or OpenAI's client, unless the model stopped for a reason that is known as the
end of an answer. An unknown reason, and one that asks for a tool, is
`llm.output.invalid`. No reason at all is `llm.http.malformed_body`. Code that runs the
tool itself says so: `raise_for_stop_reason(answer, handled={"tool_use"})`.
Bedrock reports a prompt that is too
long as a ValidationException, like any other invalid request. Only the message tells
them apart, so count the tokens before the call, as
`examples/piecework_examples/contract_review/bedrock.py` does.

## Counters and alarms

Every log event of an error has its code in the field `error_code`. `call.attempt` is
one attempt of a call. This query of CloudWatch Logs Insights counts errors by code
and minute:

```
filter error_code like /[.]/
| stats count(*) as errors by bin(1m), event, error_code
```

With `PIECEWORK_METRICS=emf`, the metric `Errors` has a dimension `ErrorCode`, and an
alarm watches each code: see [metrics](metrics.md). Prometheus and traces have the
codes, too: see [telemetry](telemetry.md).
"""


# ── codes of a release ────────────────────────────────────────────────────────

CLASSES: Final[Mapping[str, str]] = {
    code: str(row.error_class) for code, row in REGISTRY.items()
}


def released() -> str:
    """Return the list to commit with a release: one code and its class in each line."""
    return "".join(f"{code} {known}\n" for code, known in sorted(CLASSES.items()))


def incompatible_codes(listed: str, classes: Mapping[str, str] = CLASSES) -> list[str]:
    """Return the codes of a released list that are gone or have another class."""
    before = dict(line.split() for line in listed.splitlines())
    return [
        f"{code}: {was} -> {classes.get(code, 'gone')}"
        for code, was in before.items()
        if classes.get(code) != was
    ]


# `make docs` prints the page. With the argument `released`, the module prints the list
# for `tests/unit/piecework/errors/released_codes.txt`.

if __name__ == "__main__":
    sys.stdout.write(released() if sys.argv[1:] == ["released"] else page())
