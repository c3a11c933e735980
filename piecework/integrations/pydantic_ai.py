"""An agent of pydantic-ai, step by step: after a kill it pays only what was in flight.

agent = remembered(Agent(model, tools=[search, book]), tools={"book": AIR})

run -> a request -> `RememberedModel` -> a call    -> stored
    -> a tool    -> `RememberedTools` -> a call    -> stored

Outside of a chunk the agent just runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from piecework.dependency import CURRENT, Dependency
from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.integrations.drawn_anew import without
from piecework.integrations.steps import (
    TOOLS,
    Declared,
    ModelStep,
    Step,
    call_tool,
    declared_step,
    idempotency_key,
    require_known,
    streamed_error,
    tool_step,
)
from piecework.llm.request import ModelAnswer

with naming_extras():
    from pydantic import TypeAdapter
    from pydantic_ai import exceptions, messages
    from pydantic_ai.agent import WrapperAgent
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.toolsets import WrapperToolset

if TYPE_CHECKING:
    from piecework.llm.prices import Priced

__all__ = ["RememberedModel", "RememberedTools", "idempotency_key", "remembered"]

#: What stands in no key, by the kind of the message or part. A framework draws these
#: anew in each run, or keeps them for the program and sends them to no model.
#: `verification/frameworks` compares the table with the types of each tested version.
LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "request": frozenset({"timestamp", "run_id", "conversation_id", "metadata"}),
    "response": frozenset(
        {"timestamp", "run_id", "conversation_id", "metadata"}
        | {"failed_attempts", "history_digest", "workspace_ref"}
    ),
    "system-prompt": frozenset({"timestamp", "metadata"}),
    "user-prompt": frozenset({"timestamp"}),
    "tool-return": frozenset({"timestamp", "metadata"}),
    "builtin-tool-return": frozenset({"timestamp", "metadata"}),
    "retry-prompt": frozenset({"timestamp"}),
    "retry-feedback": frozenset({"timestamp"}),
    "text-content": frozenset({"metadata"}),
    "structured-content": frozenset({"metadata"}),
    "compaction": frozenset({"metadata"}),
}
#: The ids of tool calls that pydantic-ai makes, where a provider gives none.
MADE_ID: Final = "pyd_ai_"
#: What a definition of a tool keeps for the program.
OF_TOOLS: Final = {"metadata"}

_MESSAGES: Final = messages.ModelMessagesTypeAdapter
_PARAMETERS: Final = TypeAdapter(ModelRequestParameters)
_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_RETURN: Final = TypeAdapter(messages.ToolReturn)
_CONTENT: Final[TypeAdapter[Any]] = TypeAdapter(messages.UserContent)
_MEDIA: Final = (messages.FileUrl, messages.BinaryContent)
_SIGNALS: Final = {
    each.__name__: each
    for each in (
        exceptions.ModelRetry,
        exceptions.CallDeferred,
        exceptions.ApprovalRequired,
    )
}


def remembered(
    agent: Any,
    *,
    model: Dependency | None = None,
    tools: Mapping[str, Dependency | None] | None = None,
    other_tools: Dependency | None = TOOLS,
    price: Priced | None = None,
    fallback: Sequence[Any] = (),
) -> RememberedAgent:
    """Return an agent whose requests and tools are calls of the stage that runs it.

    Declare it at the top level of a module.

    Args:
        agent: An `Agent`. It stays as it is.
        model: The dependency of its requests: limits, retries, timeout, breaker. None:
            one with the name of the provider and the model.
        tools: The dependency of each tool with an effect, by its name. None in place of
            a dependency: the tool is code of the stage, as one that makes calls itself.
        other_tools: The dependency of all other tools: they are pure. None: they are
            code of the stage.
        price: What the tokens cost, such as `list_price("gpt-5-mini")`.
        fallback: The models that are asked if the agent's is overloaded or refuses.
    """
    declared = Declared(dict(tools or {}), other_tools)
    return RememberedAgent(agent, declared, model, price, fallback)


class RememberedAgent(WrapperAgent):
    """An agent whose requests and tools are calls of the stage that runs it."""

    def __init__(
        self,
        wrapped: Any,
        declared: Declared,
        model: Dependency | None = None,
        price: Priced | None = None,
        fallback: Sequence[Any] = (),
    ) -> None:
        super().__init__(wrapped)
        self._declared, self._of_model = declared, (model, price, fallback)
        self._models: dict[int, RememberedModel] = {}

    @asynccontextmanager
    async def iter(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Run the agent with its own model and tools inside ours."""
        declared = self._declared
        asked = kwargs.pop("model", None) or self.wrapped.model
        if asked is None:
            raise UsageError(
                "The agent has no model.",
                code="pipeline.declaration.invalid",
                next_step="Declare it: Agent(model, …).",
            )
        toolsets = [*self.wrapped.toolsets, *(kwargs.pop("toolsets", None) or ())]
        if all(hasattr(each, "tools") for each in toolsets):  # a server says it later
            known = {name for each in toolsets for name in each.tools}
            require_known(declared.tools, known)
        ours = [RememberedTools(each, declared) for each in toolsets]
        model = self._remembered_model(asked)
        with self.wrapped.override(model=model, toolsets=ours, tools=[]):
            async with self.wrapped.iter(*args, **kwargs) as run:
                yield run

    def _remembered_model(self, asked: Any) -> RememberedModel:
        """Return the model of a run; the agent's own is wrapped once."""
        if isinstance(asked, RememberedModel):
            return asked
        known = self._models.get(id(asked))
        if known is None or known.asked is not asked:
            known = RememberedModel(asked, *self._of_model)
            self._models[id(asked)] = known
        return known


class RememberedModel(WrapperModel):
    """A model whose requests are calls of the stage that runs.

    Streams are not stored: in a stage a streamed request is refused.
    """

    def __init__(
        self,
        wrapped: Any,
        dependency: Dependency | None = None,
        price: Priced | None = None,
        fallback: Sequence[Any] = (),
    ) -> None:
        """Wrap a model.

        Args:
            wrapped: A model, or its name.
            dependency: As `model` of `remembered`.
            price: What the tokens cost.
            fallback: Models, or their names.
        """
        super().__init__(wrapped)
        self.asked = wrapped
        others = [
            each if isinstance(each, RememberedModel) else RememberedModel(each)
            for each in fallback
        ]
        self.step: ModelStep = ModelStep.of(
            dependency,
            provider=str(self.wrapped.system),
            model=str(self.wrapped.model_name),
            send=self._send,
            tokens=tokens_of,
            price=price,
            fallback=[each.step for each in others],
        )

    async def request(self, *args: Any, **kwargs: Any) -> messages.ModelResponse:
        """Send a request, unless its answer is stored."""
        if CURRENT.get() is None:
            return await self.wrapped.request(*args, **kwargs)
        given, settings, parameters = [*args, *kwargs.values()][:3]
        identity = {
            "messages": identity_of(given),
            "settings": dict(settings or {}),
            "parameters": parameters_of(parameters),
        }
        limit = int((settings or {}).get("max_tokens") or 0)
        step = Step.of(identity, (given, settings, parameters), limit)
        answer = await self.step.call(step)
        return _MESSAGES.validate_python([answer])[0]

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Refuse to stream in a stage.

        Raises:
            UsageError: `pipeline.call.streamed`.
        """
        if CURRENT.get() is not None:
            raise streamed_error()
        async with self.wrapped.request_stream(*args, **kwargs) as stream:
            yield stream

    async def _send(self, live: Any, key: str) -> Any:
        """Send a request by the model's own method."""
        del key
        answer = await self.wrapped.request(*live)
        return _MESSAGES.dump_python([answer], mode="json")[0]


@dataclass
class RememberedTools(WrapperToolset):
    """A toolset whose tools are calls of the stage that runs.

    A dataclass, because pydantic-ai makes copies of a toolset by its fields.
    """

    declared: Declared = field(default_factory=Declared)

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        """Call a tool, unless its answer is stored."""
        own, dependency = self.wrapped, self.declared.of(name)
        if CURRENT.get() is None or dependency is None:
            return await own.call_tool(name, tool_args, ctx, tool)

        async def send(live: Any, key: str) -> Any:
            del key
            try:
                return encoded(await own.call_tool(*live))
            except tuple(_SIGNALS.values()) as signal:
                return {"signal": [type(signal).__name__, said_by(signal)]}

        about = tool.tool_def
        distinct = repr((about.description, about.parameters_json_schema))
        call = declared_step(dependency, name, send, distinct)
        step = tool_step(name, dict(tool_args), (name, tool_args, ctx, tool))
        return decoded(await call_tool(call, step))


# ── what identifies a request ─────────────────────────────────────────────────


def identity_of(history: Sequence[Any]) -> Any:
    """Return messages without what the framework draws anew."""
    dumped = _MESSAGES.dump_python(list(history), warnings=False)
    numbers: dict[str, str] = {}

    def same_id(name: str, value: Any) -> Any:
        if name == "tool_call_id" and str(value).startswith(MADE_ID):
            return numbers.setdefault(value, f"{MADE_ID}{len(numbers)}")
        return value

    return without(dumped, LEFT_OUT, ("part_kind", "kind"), same_id)


def parameters_of(parameters: Any) -> Any:
    """Return the tools and the form of the answer that a request names."""
    dumped = _PARAMETERS.dump_python(parameters, warnings=False, exclude_defaults=True)
    for name in ("function_tools", "output_tools"):
        for each in dumped.get(name) or ():
            for left_out in OF_TOOLS:
                each.pop(left_out, None)
    return dumped


# ── answers as JSON ───────────────────────────────────────────────────────────


def tokens_of(answer: Any) -> ModelAnswer:
    """Return the tokens of a stored answer."""
    usage = answer["usage"]
    return ModelAnswer(
        "",
        tokens_in=usage.get("input_tokens") or 0,
        tokens_out=usage.get("output_tokens") or 0,
        cached_tokens_in=usage.get("cache_read_tokens") or 0,
        cache_write_tokens_in=usage.get("cache_write_tokens") or 0,
    )


def encoded(value: Any) -> Any:
    """Return what a tool returned as JSON: as the model would read it."""
    if isinstance(value, messages.ToolReturn):
        return {"tool return": _RETURN.dump_python(value, mode="json")}
    if isinstance(value, _MEDIA):
        return {"content": _CONTENT.dump_python(value, mode="json")}
    return {"value": _ANY.dump_python(value, mode="json")}


def decoded(stored: Mapping[str, Any]) -> Any:
    """Return what a tool returned, or raise what it told the agent."""
    ((kind, value),) = stored.items()
    match kind:
        case "signal":
            name, said = value
            raise _SIGNALS[name](said) if said is not None else _SIGNALS[name]()
        case "tool return":
            return _RETURN.validate_python(value)
        case "content":
            return _CONTENT.validate_python(value)
    return value


def said_by(signal: Any) -> Any:
    """Return what a signal tells: a sentence for the model, or data for the program."""
    return getattr(signal, "message", None) or getattr(signal, "metadata", None)
