"""A model: its requests are calls of a dependency, its answers have a type.

ask = request -> answer -> validated -> the object
                        -> does not fit -> a repair -> validated -> the object

Request and repair are two calls. Each is remembered, retried and paid for by itself. An
answer that does not fit is remembered, because its repair refers to it. The answer of
the last request is remembered only if it fits. So a redrive repairs again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast, overload

from pydantic import BaseModel, ValidationError

from piecework import telemetry
from piecework.calls.usage import CHARACTERS_PER_TOKEN
from piecework.dependency import TAKEN, DeclaredCall, Dependency, Fallback, Usage
from piecework.domain.arguments import digest_of
from piecework.domain.identity import declare_text, function_text, named_call, path_of
from piecework.errors import StageError, UsageError
from piecework.llm.batched import batches_of, read_batched
from piecework.llm.lanes import (
    TIER_OPTIONS,
    billed_name,
    refusal,
    require_lane,
    tier_notes,
)
from piecework.llm.mending import mended
from piecework.llm.prices import Priced
from piecework.llm.request import (
    ModelAnswer,
    ModelCaller,
    ModelRequest,
    Turn,
    merged,
)
from piecework.llm.schema import (
    CLASSES_KEPT,
    invalid_answer,
    read_answer,
    repair_text,
    schema_of,
)
from piecework.resilience.lanes import BATCH, DIRECT, PRICED_TIERS, Lane
from piecework.resilience.warming import Warming
from piecework.telemetry.emit import quiet_log

M = TypeVar("M", bound=BaseModel)

#: Tokens of an answer, if neither the model nor the request sets a limit.
MAX_TOKENS: Final = 4_096
#: Requests that repair an answer which does not fit, unless a stage says otherwise.
REPAIRS: Final = 1
#: The failures after which another model is asked, once the retries are spent. The
#: provider is overloaded or down, or the model cannot read or write as much. A refusal
#: and an open breaker lead to the fallback of any dependency.
FALLBACK_CODES: Final = frozenset(
    {
        "llm.connection.failed",
        "llm.connection.timeout",
        "llm.context.overflow",
        "llm.http.429_rate_limited",
        "llm.http.500_server_error",
        "llm.http.502_bad_gateway",
        "llm.http.503_unavailable",
        "llm.http.504_gateway_timeout",
        "llm.http.529_overloaded",
        "llm.http.5xx_failed",
        "llm.model.failed",
        "llm.model.not_ready",
        "llm.output.truncated",
        "runtime.budget.retry_exhausted",
    }
)


class Model:
    """A model of a provider.

    Attributes:
        dependency: The dependency that its calls have.
        caller: Sends a request; a test replaces it.
        complete: The function of its calls; a fallback of another model calls it.
        provider, model_id: Part of the key of each call: another model is asked again.
    """

    def __init__(  # noqa: PLR0913 -- arguments of a declaration, most of them optional
        self,
        name: str,
        caller: ModelCaller,
        *,
        model_id: str = "",
        price: Priced | None = None,
        fallback: Sequence[Model] = (),
        max_tokens: int = MAX_TOKENS,
        repairs: int = REPAIRS,
        options: Mapping[str, Any] | None = None,
        lane: Lane = DIRECT,
        warm: bool = False,
        **declared: Any,
    ) -> None:
        """Declare a model.

        Args:
            name: The name of the dependency, in keys, tables and logs.
            caller: An adapter such as `openai_chat(client)`, or an async function that
                receives a `ModelRequest` and returns a `ModelAnswer` or a text.
            model_id: The provider's id of the model; default: the name.
            price: What its tokens cost; None: the bill has tokens without money.
            fallback: The models that are asked, in order, if this one is overloaded,
                cut off or refuses. They have no fallbacks of their own.
            max_tokens: Tokens of an answer, if `ask` sets no limit.
            repairs: How often an answer that does not fit is sent back with its errors,
                if `ask` does not say; 0: never. Each repair is a paid request.
            options: Further parameters of each request to this model, as the provider's
                method names them. Those of `ask` are added, and win. A part of keys,
                except for the tier.
            lane: How its requests are served: `Lane.direct()`; `Lane.flex()`, later
                and for less; `Lane.batch()`, hours later. No part of keys: the answer
                is the same.
            warm: Whether the first request of each prefix goes before the others of
                its process, so that they read it from the provider's cache. A prefix
                is the system text, the schema and the options.
            **declared: Further arguments of `Dependency`, such as `limits`, `retry`,
                `timeout`, `breaker`, `cache_ttl_s`, `by`, `scope` and `version`.

        Raises:
            UsageError: `pipeline.declaration.invalid`; `pipeline.argument.indistinct`:
                an option cannot be told from others, such as a client.
        """
        self.name, self.caller, self.price = name, caller, price
        self.model_id, self.max_tokens = model_id or name, max_tokens
        self.repairs = require_repairs(repairs)
        self.options, self.lane, self.warm = dict(options or {}), lane, warm
        self.provider = str(getattr(caller, "provider", "") or path_of(caller))
        self.fallback = tuple(fallback)
        require_lane(self, lane)
        ours: dict[str, Any] = {"layer": "llm", "usage": self.usage_of, "lane": lane}
        ours["estimate"] = self.estimated_tokens
        if warm:
            ours["warming"] = Warming(prefix_of)
        ours |= {"provider": self.provider, "model": self.model_id}
        if price is not None:
            ours["estimate_usd"] = self.estimated_usd
        if lane.tier == BATCH:
            known = name, self.provider, self.model_id
            ours["batch"] = batches_of(caller, self.request_of, *known)
        self._alone = Dependency(name, **{**ours, **declared})
        chain = [Fallback(each.dependency, each.complete) for each in self.fallback]
        self.dependency: Dependency = replace(
            self._alone, fallback=chain, fallback_codes=FALLBACK_CODES
        )
        self._identity = json.dumps([self.provider, self.model_id, *self._said()])
        named = named_call(f"model {name}", version=self._identity)
        self.complete: Callable[..., Awaitable[ModelAnswer]] = named(self._send)
        self.complete.__name__ = name  # in events, errors and counts of tests
        self._first = DeclaredCall(self.dependency, self.complete)
        # The request of a repair quotes the answer that did not fit, and says why.
        self._repairing = replace(
            self._alone, record_calls=self._alone.record_calls or "all"
        )
        self._again = DeclaredCall(self._repairing, self.complete)
        self.fitting = functools.lru_cache(CLASSES_KEPT)(self._fitting)
        self.only_call = functools.lru_cache(CLASSES_KEPT)(self._only_call)
        self.repair_call = functools.lru_cache(CLASSES_KEPT)(self._repair_call)
        self._noted: set[str] = set()
        self._by_name = {each.name: each for each in (self, *self.fallback)}

    def _said(self) -> list[str]:
        """Return the digest of the options that may change an answer; none: none."""
        said = {k: v for k, v in self.options.items() if k not in TIER_OPTIONS}
        return [digest_of((said,), {})] if said else []

    @overload
    async def ask(
        self,
        system: str,
        text: str,
        *,
        returns: type[M],
        context: Mapping[str, Any] | None = None,
        repairs: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompt_version: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> M: ...
    @overload
    async def ask(
        self,
        system: str,
        text: str,
        *,
        returns: type[str] = str,
        may_be_empty: bool = False,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompt_version: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> str: ...
    async def ask(  # noqa: PLR0913 -- parameters of the request, each optional
        self,
        system: str,
        text: str,
        *,
        returns: type[Any] = str,
        context: Mapping[str, Any] | None = None,
        repairs: int | None = None,
        may_be_empty: bool = False,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompt_version: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask the model, in a chunk as a remembered and retried call.

        The key of the call covers provider, model id, both texts, schema and all
        parameters. Outside of a chunk the request is sent once, without retries.

        Args:
            system: The instructions; empty: none.
            text: What the model works on.
            returns: The pydantic model of the answer; default: the answer's text.
            context: For the validators of `returns`, as `info.context`.
            repairs: How often an answer that does not fit is sent back; None: as the
                model says.
            may_be_empty: Whether an answer without any text is an answer.
            max_tokens: The most tokens of the answer; None: the asked model's own.
            temperature: None: the provider's default.
            prompt_version: Another version asks again, although the texts are equal.
            options: Further parameters of this model, as the provider's method names
                them. A fallback is sent its own: `Model(options=…)`.

        Raises:
            SemanticError: `llm.output.truncated`: the answer is cut off;
                `llm.output.invalid`: it does not fit after its repairs, has no text, or
                the model stopped for a reason that is not the end of an answer.
            PolicyError: `llm.policy.refusal`, `llm.policy.content_filtered`.
            PermanentError: `llm.context.overflow`.
            TransientError: `llm.model.failed`, `llm.http.malformed_body`: the answer
                says so although its status is 200, when the retries are spent.
            UsageError: `pipeline.declaration.invalid`: `returns` is not a model, or
                `repairs` not a number.
            Exception: The error of the provider's client, when the retries are spent.
        """
        request = ModelRequest(
            system=system,
            turns=(Turn("user", text),),
            max_tokens=max_tokens or self.max_tokens,
            temperature=temperature,
            options=dict(options or {}),
            options_for=self.name if options else "",
            prompt_version=prompt_version,
            own_limit=not max_tokens,
            may_be_empty=may_be_empty,
        )
        if returns is str:
            return (await self._first(request)).text
        request = replace(
            request,
            schema=schema_of(cast("Hashable", returns)),
            schema_name=returns.__name__,
        )
        left = self.repairs if repairs is None else require_repairs(repairs)
        if not left:
            only = self.only_call(cast("Hashable", returns))
            return _read(await only(request, context), returns, context, request)
        answer = await self._first(request)
        answering = self._by_name.get(answer.answered_by, self)
        while left:
            try:
                return read_answer(answer.text, returns, context)
            except ValidationError as error:
                repair = Turn("user", repair_text(error))
            said = Turn("assistant", answer.text or "(no text)")
            request = replace(request, turns=(*request.turns, said, repair))
            left -= 1
            if left:
                answer = await answering._again(request)  # noqa: SLF001 -- a Model, too
            else:
                last = answering.repair_call(cast("Hashable", returns))
                answer = await last(request, context)
        return _read(answer, returns, context, request)

    async def _send(
        self, request: ModelRequest, *, idempotency_key: str = ""
    ) -> ModelAnswer:
        """Send a request; raise the error of an answer that is not complete."""
        taken = TAKEN.get()
        lane = self.lane if taken is None else taken
        if lane.said is None and lane.tier == BATCH:
            lane = DIRECT
        request = self.request_of(request, lane, idempotency_key)
        try:
            said = await self._said_to(request, lane)
        except StageError as failed:
            found = failed.facts.get("answer")
            if isinstance(found, ModelAnswer) and (found.tokens_in or found.tokens_out):
                self._paid(failed, found)
            raise
        except Exception as raised:
            refused = refusal(raised, self, lane) if lane.tier else None
            if refused is None:
                raise
            raise refused from raised
        answer = ModelAnswer(said) if isinstance(said, str) else said
        text = getattr(answer, "text", None)
        if not isinstance(answer, ModelAnswer) or not isinstance(text, str):
            raise self._wrong_caller(type(said).__name__)
        is_typed = request.schema is not None
        answer = replace(mended(answer, typed=is_typed), answered_by=self.name)
        answer = replace(answer, notes=answer.notes + tier_notes(answer, lane))
        for note in {*answer.notes} - self._noted:
            self._noted.add(note)
            telemetry.emit(
                quiet_log(), "model.answer_mended", dependency=self.name, note=note
            )
        if (error := answer.failure(request)) is not None:
            raise self._paid(error, answer)
        return answer

    async def _said_to(self, request: ModelRequest, lane: Lane) -> Any:
        """Return the answer to a request: of a batch, or of the caller."""
        if lane.said is None:
            return await self.caller(request)
        return read_batched(lane.said)

    def request_of(
        self, request: ModelRequest, lane: Lane = DIRECT, key: str = ""
    ) -> ModelRequest:
        """Return a request of `ask` as this model is sent it."""
        return replace(
            request,
            max_tokens=self.limit_of(request),
            options=self.options_of(request),
            model=self.model_id,
            idempotency_key=key,
            lane=lane.tier,
            timeout=lane.timeout or None,
        )

    def options_of(self, request: ModelRequest) -> dict[str, Any]:
        """Return the parameters of a request: this model's, then those of `ask`.

        Before both: the mark of a prefix that the provider shall keep.
        """
        is_ours = request.options_for in {"", self.name}
        mark = getattr(self.caller, "cache_mark", None) if self.warm else None
        marked = mark(request) if mark is not None else {}
        return merged(merged(marked, self.options), request.options if is_ours else {})

    def _wrong_caller(self, returned: str) -> UsageError:
        message = f"The caller of the model {self.name} returned a {returned}."
        step = "Let it return a text, or a ModelAnswer with a text."
        code = "pipeline.declaration.invalid"
        return UsageError(message, code=code, next_step=step)

    def _repair_call(self, returns: type[BaseModel]) -> DeclaredCall[Any, ModelAnswer]:
        """Return the call of the last repair; no other model is asked for it."""
        return DeclaredCall(self._repairing, self.fitting(cast("Hashable", returns)))

    def _only_call(self, returns: type[BaseModel]) -> DeclaredCall[Any, ModelAnswer]:
        """Return the call of a request that has no repair."""
        chain = [
            Fallback(each.dependency, each.fitting(cast("Hashable", returns)))
            for each in self.fallback
        ]
        dependency = replace(self.dependency, fallback=chain)
        return DeclaredCall(dependency, self.fitting(cast("Hashable", returns)))

    def _fitting(self, returns: type[BaseModel]) -> Callable[..., Awaitable[Any]]:
        """Return the function of the last request: it answers only what fits."""

        async def fitting(
            request: ModelRequest,
            context: Mapping[str, Any] | None,
            *,
            idempotency_key: str = "",
        ) -> ModelAnswer:
            answer = await self._send(request, idempotency_key=idempotency_key)
            try:
                _read(answer, returns, context, request)
            except StageError as error:
                raise self._paid(error, answer) from error.__cause__
            return answer

        fitting.__name__ = self.name
        declared = named_call(f"repair {self.name}", version=self._identity)(fitting)
        # One that was made again, after it was forgotten, does the same.
        return declare_text(declared, function_text(declared), (self.name, returns))

    def _paid(self, error: StageError, answer: ModelAnswer) -> StageError:
        """Return an error with the usage of the answer: it has been paid for."""
        error.facts["usage"] = self.usage_of(answer)
        error.facts["refused_answer"] = answer.text
        return error

    def usage_of(self, answer: ModelAnswer) -> Usage:
        """Return what an answer cost; without a price: tokens and no money."""
        by, usd = self._by_name.get(answer.answered_by, self), answer.usd
        if by is not self:  # a fallback, whose answer was remembered as this model's
            return by.usage_of(answer)
        counted, saved = answer.tokens_in or answer.tokens_out, 0.0
        if usd is None and self.price is not None and counted:
            usd = self.price.usd(answer)
            if answer.service_tier in PRICED_TIERS:
                direct = self.price.usd(replace(answer, service_tier=""))
                saved = max(0.0, direct - usd)
        return Usage(
            answer.tokens_in,
            answer.tokens_out,
            usd,
            billed_name(self.model_id, answer),
            answer.response_model,
            answer.stop_reason,
            answer.cached_tokens_in,
            answer.cache_write_tokens_in,
            saved,
        )

    def estimated_usd(self, request: ModelRequest, *_: Any) -> float:
        """Return the most dollars that a request is likely to cost, by the price."""
        if self.price is None:
            return 0.0
        texts, most = estimated_tokens_in(request), self.limit_of(request)
        return self.price.usd(ModelAnswer("", tokens_in=texts, tokens_out=most))

    def estimated_tokens(self, request: ModelRequest, *_: Any) -> int:
        """Return the most tokens that a request is likely to use, in and out."""
        return estimated_tokens_in(request) + self.limit_of(request)

    def limit_of(self, request: ModelRequest) -> int:
        """Return the most tokens of an answer: by `ask`, else this model's own."""
        return self.max_tokens if request.own_limit else request.max_tokens


def prefix_of(request: ModelRequest, *_: Any) -> tuple[str, ...]:
    """Return what the prompts of equal prefixes have in common."""
    asked = repr(sorted(request.options.items()))
    return request.system, request.schema_name, asked


def estimated_tokens_in(request: ModelRequest) -> int:
    """Return about how many tokens the texts of a request have."""
    schema = json.dumps(request.schema) if request.schema else ""
    texts = (request.system, schema, *(turn.text for turn in request.turns))
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN


def require_repairs(repairs: object) -> int:
    """Return a number of repairs.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if type(repairs) is int and repairs >= 0:
        return repairs
    raise UsageError(
        f"`repairs` is {repairs!r}, not a number of requests.",
        code="pipeline.declaration.invalid",
        next_step="Write repairs=1, or repairs=0 for none.",
    )


def _read(
    answer: ModelAnswer,
    returns: type[M],
    context: Mapping[str, Any] | None,
    request: ModelRequest,
) -> M:
    """Return the answer of the last request as an object.

    Raises:
        SemanticError: `llm.output.invalid`.
    """
    try:
        return read_answer(answer.text, returns, context)
    except ValidationError as error:
        raise invalid_answer(error, len(request.turns) // 2) from error
