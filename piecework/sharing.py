"""Share the responses of pure calls among the jobs of a tenant, if that is declared.

The key does not contain job, chunk or stage. If the cache has no response, or one of
another version of the function, the call is made and paid for as without a cache.
"""

from __future__ import annotations

from piecework import keys, values
from piecework.call import Call
from piecework.errors import PermanentError
from piecework.ports import ResponseCache


async def cache_get(cache: ResponseCache, call: Call) -> str | None:
    """Return the response of an equal call of the tenant; None: not cached."""
    if call.dependency.cache_ttl_s is None:
        return None
    value = await cache.recall(response_key(call))
    if value is None:
        return None
    try:
        values.decode(call.bound.func, value)
    except PermanentError:
        return None
    return value


async def cache_put(cache: ResponseCache, call: Call, value: str) -> None:
    """Store a response for other jobs of the tenant."""
    if call.dependency.cache_ttl_s is not None:
        await cache.keep(response_key(call), value, call.dependency.cache_ttl_s)


def response_key(call: Call) -> str:
    """Return the key of a response: equal for equal calls of all jobs of a tenant."""
    return keys.call_key(
        "response",
        call.scope.tenant,
        call.dependency.name,
        call.bound.func.__qualname__,
        args=[call.bound.args, call.bound.keywords],
    )
