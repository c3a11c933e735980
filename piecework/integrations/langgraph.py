"""The models and tools of a LangGraph graph, as calls of the stage that runs it.

model = remembered_model(init_chat_model("openai:gpt-5-mini"), MINI)
tools = remembered_tools([search, book], {"book": AIRLINE})
graph = create_agent(model, tools)

a request -> `RememberedModel`  -> a call -> stored
a tool    -> a copy of the tool -> a call -> stored

The nodes of the graph run again after a kill; what they ask is stored. Await the graph:
`graph.ainvoke`. Outside of a chunk it just runs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from piecework.dependency import CURRENT, Dependency
from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.integrations.drawn_anew import without
from piecework.integrations.steps import (
    TOOLS,
    ModelStep,
    Step,
    call_tool,
    declared_step,
    dependency_of,
    idempotency_key,
    require_known,
    tool_step,
)
from piecework.llm.request import ModelAnswer

with naming_extras():
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import (
        ToolMessage,
        message_to_dict,
        messages_from_dict,
    )
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.runnables import RunnableBinding
    from langchain_core.tools import StructuredTool
    from pydantic import PrivateAttr
    from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from piecework.llm.prices import Priced

__all__ = ["RememberedModel", "idempotency_key", "remembered_model", "remembered_tools"]

#: What stands in no key, by the type of the message. LangGraph draws ids anew for what
#: comes into its state, and an artifact is for the program.
LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    **{
        kind: frozenset({"id"})
        for kind in (
            *("human", "ai", "system", "chat", "function", "remove"),
            *("HumanMessageChunk", "AIMessageChunk", "SystemMessageChunk"),
            *("ChatMessageChunk", "FunctionMessageChunk"),
        )
    },
    "tool": frozenset({"id", "artifact"}),
    "ToolMessageChunk": frozenset({"id", "artifact"}),
}


def remembered_model(
    model: Any,
    dependency: Dependency | None = None,
    *,
    price: Priced | None = None,
    fallback: Sequence[Any] = (),
) -> RememberedModel:
    """Return a chat model whose requests are calls of the stage that runs.

    Declare it at the top level of a module.

    Args:
        model: A chat model of LangChain, without tools: bind them to what is returned.
        dependency: With limits, retries, timeout, breaker. None: one with the names of
            the provider and the model.
        price: What the tokens cost, such as `list_price("gpt-5-mini")`.
        fallback: The chat models that are asked if this one is overloaded or refuses.
    """
    own = RememberedModel(wrapped=model)
    others = [
        each if isinstance(each, RememberedModel) else remembered_model(each)
        for each in fallback
    ]
    own.set_step(
        ModelStep.of(
            dependency,
            provider=str(model._llm_type),  # noqa: SLF001 -- a method of each chat model
            model=name_of(model),
            send=own.send,
            tokens=tokens_of,
            price=price,
            fallback=[each.step for each in others],
        )
    )
    return own


def remembered_tools(
    tools: Sequence[Any],
    effects: Mapping[str, Dependency | None] | None = None,
    *,
    other_tools: Dependency | None = TOOLS,
) -> list[Any]:
    """Return copies of tools that are calls of the stage that runs.

    Args:
        tools: What `@tool` or a server of tools has made.
        effects: The dependency of each tool with an effect, by its name. None in place
            of a dependency: the tool is code of the stage, as one that makes calls
            itself, or returns a `Command`.
        other_tools: The dependency of all other tools: they are pure. None: they are
            code of the stage.

    Raises:
        UsageError: `pipeline.declaration.invalid`: there is no such tool, or a class of
            its own makes one.
    """
    known = effects or {}
    require_known(known, {each.name for each in tools})
    found = [(each, dependency_of(each.name, known, other_tools)) for each in tools]
    return [each if own is None else remembered_tool(each, own) for each, own in found]


class RememberedModel(BaseChatModel):
    """A chat model whose requests are calls of the stage that runs."""

    wrapped: Any
    _step: Any = PrivateAttr(default=None)

    @property
    def step(self) -> ModelStep:
        """Its requests."""
        found: ModelStep = self._step
        return found

    def set_step(self, step: ModelStep) -> None:
        """Set what makes its requests."""
        self._step = step

    @property
    def _llm_type(self) -> str:
        return str(self.wrapped._llm_type)  # noqa: SLF001 -- as above

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.wrapped._identifying_params  # noqa: SLF001
        return found

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Bind tools as the model itself describes them to its provider."""
        bound = self.wrapped.bind_tools(tools, **kwargs)
        if not isinstance(bound, RunnableBinding):
            raise UsageError(
                f"{type(self.wrapped).__name__}.bind_tools returns no binding.",
                code="pipeline.declaration.invalid",
                next_step="Give the model itself, without a chain around it.",
            )
        return self.bind(**bound.kwargs)

    async def _agenerate(
        self,
        messages: list[Any],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Send a request, unless its answer is stored."""
        del run_manager
        options = {**kwargs, **({"stop": stop} if stop else {})}
        if CURRENT.get() is None:
            return result_of(await self.wrapped.ainvoke(messages, **options))
        identity = {
            "model": plain(self._identifying_params),
            "messages": identity_of(messages),
            "options": plain(options),
        }
        limit = int(options.get("max_tokens") or 0)
        step = Step.of(identity, (messages, options), limit)
        return result_of(messages_from_dict([await self.step.call(step)])[0])

    def _generate(
        self,
        messages: list[Any],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Send a request outside of a stage.

        Raises:
            UsageError: `pipeline.call.in_thread`.
        """
        del run_manager
        if CURRENT.get() is not None:
            raise UsageError(
                "The graph asks its model in a thread of the stage.",
                code="pipeline.call.in_thread",
                next_step="Await `graph.ainvoke`, in nodes that are `async def`.",
            )
        options = {**kwargs, **({"stop": stop} if stop else {})}
        return result_of(self.wrapped.invoke(messages, **options))

    async def send(self, live: Any, key: str) -> Any:
        """Send a request by the model's own method."""
        del key
        messages, options = live
        answer = await self.wrapped.ainvoke(messages, **options)
        return to_jsonable_python(message_to_dict(answer))


def name_of(model: Any) -> str:
    """Return the name of a model."""
    for name in ("model_name", "model", "model_id"):
        if isinstance(found := getattr(model, name, None), str) and found:
            return found
    return type(model).__name__


def result_of(message: Any) -> Any:
    """Return a message as a chat model returns it."""
    return ChatResult(generations=[ChatGeneration(message=message)])


def remembered_tool(tool: Any, dependency: Dependency) -> Any:
    """Return a copy of a tool that is a call of the stage that runs.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if not isinstance(tool, StructuredTool):
        raise UsageError(
            f"The tool {tool.name!r} is a {type(tool).__name__} of its own.",
            code="pipeline.declaration.invalid",
            next_step="Make it of a function, with `@tool`.",
        )
    function = tool.coroutine or tool.func

    async def send(live: Any, key: str) -> Any:
        del key
        args, kwargs = live
        return encoded(await in_its_way(function, args, kwargs))

    distinct = repr((tool.description, tool.args))
    call = declared_step(dependency, tool.name, send, distinct)

    @functools.wraps(function)
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        if CURRENT.get() is None:
            return await in_its_way(function, args, kwargs)
        # What the graph injects, such as its state, is another object in each run.
        asked = {name: kwargs[name] for name in tool.args if name in kwargs}
        step = tool_step(tool.name, asked, (args, kwargs))
        return decoded(await call_tool(call, step))

    return tool.model_copy(update={"coroutine": invoke})


async def in_its_way(function: Any, args: Any, kwargs: Any) -> Any:
    """Await a coroutine function; call a plain one in a thread."""
    if asyncio.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


# ── what identifies a request, and answers as JSON ────────────────────────────


def identity_of(messages: Sequence[Any]) -> Any:
    """Return messages without what the framework draws anew."""
    return without([each.model_dump() for each in messages], LEFT_OUT, ("type",))


def plain(value: Any) -> Any:
    """Return a value as JSON; what only the program sees is None."""
    return to_jsonable_python(value, fallback=lambda _: None, exclude_none=True)


def encoded(value: Any) -> Any:
    """Return what a tool returned as JSON."""
    if isinstance(value, ToolMessage):
        return {"message": to_jsonable_python(message_to_dict(value))}
    if isinstance(value, tuple):  # the content, and an artifact for the program
        return {"pair": to_jsonable_python(value)}
    return {"value": value}


def decoded(stored: Mapping[str, Any]) -> Any:
    """Return what a tool returned."""
    ((kind, value),) = stored.items()
    if kind == "message":
        return messages_from_dict([value])[0]
    return tuple(value) if kind == "pair" else value


def tokens_of(answer: Any) -> ModelAnswer:
    """Return the tokens of a stored answer."""
    usage = answer["data"].get("usage_metadata") or {}
    details = usage.get("input_token_details") or {}
    return ModelAnswer(
        "",
        tokens_in=usage.get("input_tokens") or 0,
        tokens_out=usage.get("output_tokens") or 0,
        cached_tokens_in=details.get("cache_read") or 0,
        cache_write_tokens_in=details.get("cache_creation") or 0,
    )
