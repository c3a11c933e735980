"""An agent of openai-agents, step by step: a kill repeats only what was in flight.

agent = remembered(Agent("reader", tools=[search, book]), tools={"book": AIR})
done = await Runner.run(agent, "Go to Rome")

a request -> `RememberedModel`     -> a call -> stored
a tool    -> a copy of the function tool -> a call -> stored

Outside of a chunk the agent just runs.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from piecework.dependency import CURRENT, Dependency
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
    from agents import Agent, FunctionTool, Model, ModelResponse
    from agents.models.multi_provider import MultiProvider
    from pydantic import TypeAdapter
    from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from piecework.llm.prices import Priced

__all__ = ["RememberedModel", "idempotency_key", "remembered"]

#: The arguments of `Model.get_response` that stand in no key. OpenAI draws the id of a
#: conversation anew, and `previous_response_id` names an answer that was stored.
LEFT_OUT: Final = frozenset({"tracing", "conversation_id"})
#: The arguments that do, and how each is written.
KEPT: Final = frozenset(
    {"system_instructions", "input", "model_settings", "tools", "output_schema"}
    | {"handoffs", "previous_response_id", "prompt"}
)
#: What of the settings stands in no key: it changes no answer.
OF_SETTINGS: Final = frozenset({"retry"})
#: What a function tool tells the model.
OF_FUNCTIONS: Final = ("name", "description", "params_json_schema")

_ANSWER: Final = TypeAdapter(ModelResponse)


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

    Declare it at the top level of a module. An agent to which it hands over is declared
    in the same way.

    Args:
        agent: An `Agent`. It stays as it is.
        model: The dependency of its requests: limits, retries, timeout, breaker. None:
            one with the name of the model.
        tools: The dependency of each tool with an effect, by its name. None in place of
            a dependency: the tool is code of the stage, as one that makes calls itself.
        other_tools: The dependency of all other tools: they are pure. None: they are
            code of the stage.
        price: What the tokens cost, such as `list_price("gpt-5-mini")`.
        fallback: The models that are asked if the agent's is overloaded or refuses.

    Raises:
        UsageError: `pipeline.declaration.invalid`: the agent has no such tool.
    """
    declared = Declared(dict(tools or {}), other_tools)
    if not agent.mcp_servers:  # a server says later which tools it has
        require_known(declared.tools, {each.name for each in agent.tools})
    given = {each.name: getattr(agent, each.name) for each in fields(agent)}
    given["model"] = RememberedModel(agent.model, model, price, fallback)
    return RememberedAgent(**given, declared=declared)


@dataclass
class RememberedAgent(Agent):
    """An agent whose requests and tools are calls of the stage that runs it."""

    declared: Declared = field(default_factory=Declared)

    async def get_all_tools(self, run_context: Any) -> list[Any]:
        """Return the tools of the agent and its servers, each as a call."""
        found = await super().get_all_tools(run_context)
        return [remembered_tool(each, self.declared) for each in found]


class RememberedModel(Model):
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
            wrapped: A model, or its name; None: the default model of the framework.
            dependency: As `model` of `remembered`.
            price: What the tokens cost.
            fallback: Models, or their names.
        """
        self._asked, self._found = wrapped, None
        others = [
            each if isinstance(each, RememberedModel) else RememberedModel(each)
            for each in fallback
        ]
        self.step: ModelStep = ModelStep.of(
            dependency,
            provider="openai-agents",
            model=name_of(wrapped),
            send=self._send,
            tokens=tokens_of,
            price=price,
            fallback=[each.step for each in others],
        )

    @property
    def wrapped(self) -> Any:
        """The model itself; its client is made when it is first used."""
        if isinstance(self._asked, Model):
            return self._asked
        if self._found is None:
            self._found = MultiProvider().get_model(self._asked)
        return self._found

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request, unless its answer is stored."""
        if CURRENT.get() is None:
            return await self.wrapped.get_response(*args, **kwargs)
        given = arguments_of(*args, **kwargs)
        limit = int(getattr(given["model_settings"], "max_tokens", None) or 0)
        step = Step.of(identity_of(given), (args, kwargs), limit)
        return _ANSWER.validate_python(await self.step.call(step))

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Refuse to stream in a stage.

        Raises:
            UsageError: `pipeline.call.streamed`.
        """
        if CURRENT.get() is not None:
            raise streamed_error()
        async for event in self.wrapped.stream_response(*args, **kwargs):
            yield event

    async def close(self) -> None:
        """Close the model."""
        if self._found is not None or isinstance(self._asked, Model):
            await self.wrapped.close()

    def __getattr__(self, name: str) -> Any:
        """Return what newer versions ask of a model."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    async def _send(self, live: Any, key: str) -> Any:
        """Send a request by the model's own method."""
        del key
        args, kwargs = live
        answer = await self.wrapped.get_response(*args, **kwargs)
        # A field that was never set must stay unset: the next request has the items.
        return _ANSWER.dump_python(answer, mode="json", exclude_unset=True)


def name_of(model: Any) -> str:
    """Return the name of a model."""
    if isinstance(model, str) or model is None:
        return model or "default"
    return str(getattr(model, "model", None) or type(model).__name__)


def remembered_tool(tool: Any, declared: Declared) -> Any:
    """Return a copy of a function tool that is a call; other tools run at OpenAI."""
    if not isinstance(tool, FunctionTool):
        return tool
    dependency = declared.of(tool.name)
    if dependency is None:
        return tool

    async def send(live: Any, key: str) -> Any:
        del key
        return to_jsonable_python(await tool.on_invoke_tool(*live), fallback=str)

    distinct = repr((tool.description, tool.params_json_schema))
    call = declared_step(dependency, tool.name, send, distinct)

    async def invoke(context: Any, arguments: str) -> Any:
        if CURRENT.get() is None:
            return await tool.on_invoke_tool(context, arguments)
        step = tool_step(tool.name, read(arguments), (context, arguments))
        return await call_tool(call, step)

    own = copy.copy(tool)
    own.on_invoke_tool = invoke
    return own


def read(arguments: str) -> Any:
    """Return the arguments of a tool; another text as it is."""
    with suppress(ValueError):
        return json.loads(arguments)
    return arguments


# ── what identifies a request ─────────────────────────────────────────────────


def arguments_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments of `get_response` by their names."""
    bound = inspect.signature(Model.get_response).bind(None, *args, **kwargs)
    return {name: value for name, value in bound.arguments.items() if name != "self"}


def identity_of(given: Mapping[str, Any]) -> Any:
    """Return what makes a request the same one in a later run."""
    written = {name: WRITERS.get(name, plain)(given[name]) for name in {*given} & KEPT}
    return without(written, {}, ())


def plain(value: Any) -> Any:
    """Return a value as JSON; what only the program sees is None."""
    return to_jsonable_python(value, fallback=lambda _: None, exclude_none=True)


def settings_of(settings: Any) -> Any:
    """Return the settings that change an answer."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return plain({name: values[name] for name in {*values} - OF_SETTINGS})


def tools_of(tools: Sequence[Any]) -> Any:
    """Return what the model is told of each tool."""
    return [
        {name: plain(getattr(each, name)) for name in OF_FUNCTIONS}
        if isinstance(each, FunctionTool)
        else [type(each).__name__, plain(each)]
        for each in tools
    ]


def schema_of(schema: Any) -> Any:
    """Return the form of the answer; None: it is a text."""
    if schema is None or schema.is_plain_text():
        return None
    return [schema.name(), plain(schema.json_schema())]


def handoffs_of(handoffs: Sequence[Any]) -> Any:
    """Return what the model is told of the agents to which it may hand over."""
    return [
        [each.tool_name, each.tool_description, plain(each.input_json_schema)]
        for each in handoffs
    ]


#: How the arguments are written that are more than JSON.
WRITERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "model_settings": settings_of,
    "tools": tools_of,
    "output_schema": schema_of,
    "handoffs": handoffs_of,
}


def tokens_of(answer: Any) -> ModelAnswer:
    """Return the tokens of a stored answer."""
    usage = answer["usage"]
    details = usage.get("input_tokens_details") or {}
    return ModelAnswer(
        "",
        tokens_in=usage.get("input_tokens") or 0,
        tokens_out=usage.get("output_tokens") or 0,
        cached_tokens_in=details.get("cached_tokens") or 0,
    )
