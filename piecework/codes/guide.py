"""What stands on the page beside the tables: errors as an author meets them."""

from __future__ import annotations

from typing import Final

GUIDE: Final = """\
## The envelope

Every error is turned into an envelope, by its structure (type, HTTP status, the
provider's code) and never by its message. Envelopes stand in the chunk's trail, in its
dead letter and in `piecework dlq show JOB CHUNK`:

| field | what it says |
| --- | --- |
| `code`, `error_class` | what it is, and what is done about it |
| `message` | what the error said: secrets masked, then cut at 512 characters |
| `http_status`, `provider_code` | the evidence, where there is any |
| `retry_after` | seconds that the other side asked us to wait |
| `stage`, `attempt`, `at` | where and when |
| `cause` | the chain of exceptions, each with its code: at most 256 characters |
| `correlation_id` | `job/chunk`, as in the log |
| `dependency` | whose breaker is open |

Known without being imported are the errors of botocore (Bedrock's, too), aiohttp,
httpx, requests, Anthropic's and OpenAI's SDK, and of those that are shaped like them.

## Plan around an error

`envelope_of` returns the envelope of what `ctx.call` raised. A stage can go by its
code; a model that plans is given `envelope.model_dump_json(exclude_defaults=True)`.

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

A dependency can say what its errors mean: `classify` is given an error, or what that
was raised from, and returns one of the five errors of Piecework with a code of your
own, or None. What it does not know is judged by its shape. `ctx.call` still raises the
error itself. With `http_status=` it can hand a status on: a 4xx, but for 408 and 409,
says that an effect was refused and has not happened.

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
Bedrock's or OpenAI's client: `llm.policy.refusal`, `llm.policy.content_filtered`,
`llm.context.overflow` or `llm.output.truncated`. Bedrock reports a prompt that is too
long as a ValidationException, like any other invalid request. Only the message tells
them apart, so count the tokens before the call, as
`examples/contract_review/bedrock.py` does.

## Counters and alarms

Every event of the log that tells of an error has its code in `error_code`;
`call.attempt` is one attempt of a call. In CloudWatch Logs Insights, for each code and
minute:

```
filter error_code like /[.]/
| stats count(*) as errors by bin(1m), event, error_code
```

As a metric with a dimension for each code, on which an alarm can stand:

```
aws logs put-metric-filter --log-group-name GROUP --filter-name piecework-errors \\
  --filter-pattern '{ $.event = "call.attempt" && $.error_code = "*" }' \\
  --metric-transformations \\
'metricName=Errors,metricNamespace=Piecework,metricValue=1,'\\
'dimensions={error_code=$.error_code}'
```

The same with `chunk.dead_lettered` in place of `call.attempt` counts dead letters.
"""
