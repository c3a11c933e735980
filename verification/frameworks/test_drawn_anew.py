"""The tables of what stands in no key, beside the types of the installed version."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import agents
from langchain_core import messages as langchain
from openai.types.responses import ResponseInputItemParam
from pydantic_ai import messages

from piecework.integrations import langgraph, openai_agents, pydantic_ai

#: Names that look drawn and are not: a provider gave them, or the program.
GIVEN = {
    *("id", "file_id", "document_id", "model_id", "provider_response_id"),
    *("context_id", "start_ms", "interrupted_at_ms", "duration_ms", "timestamps"),
}
#: A field of an answer, or of a part of one: it is stored with the answer.
OF_ANSWERS = {"SpeechTimestamp", "ModelRequestAttempt", "WorkspaceRef", "RequestUsage"}
SUSPECT = ("timestamp", "_id", "metadata", "uuid", "digest", "_ms", "_at")


def dataclasses_in(hint: Any, found: dict[Any, None]) -> None:
    """Add every dataclass that a type can hold."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint in found:
            return
        found[hint] = None
        hints = typing.get_type_hints(hint, include_extras=True)
        for each in dataclasses.fields(hint):
            dataclasses_in(hints[each.name], found)
    for each in typing.get_args(hint):
        dataclasses_in(each, found)


def drawn_fields(kind: Any) -> Iterator[str]:
    """Yield the fields whose value is another one each time, or whose name says so."""
    for each in dataclasses.fields(kind):
        make: Any = each.default_factory
        drawn = make is not dataclasses.MISSING and make() != make()
        if drawn or (each.name.endswith(SUSPECT) and each.name not in GIVEN):
            yield each.name


def test_pydantic_ai_draws_nothing_anew_that_the_table_does_not_name() -> None:
    found: dict[Any, None] = {}
    dataclasses_in(messages.ModelMessage, found)
    assert messages.ToolReturnPart in found

    unnamed = []
    for kind in found:
        if kind.__name__ in OF_ANSWERS:
            continue
        fields = {each.name: each.default for each in dataclasses.fields(kind)}
        of_kind = str(fields.get("part_kind", fields.get("kind", "")))
        left_out = pydantic_ai.LEFT_OUT.get(of_kind, frozenset()) | {"tool_call_id"}
        missing = {*drawn_fields(kind)} - left_out - {"vendor_metadata"}
        unnamed += [(kind.__name__, each) for each in sorted(missing)]
    assert unnamed == []


def test_two_runs_of_an_agent_of_pydantic_ai_have_the_same_messages() -> None:
    def history() -> list[Any]:
        return [
            messages.ModelRequest([messages.UserPromptPart("go")], run_id=str(id([]))),
            messages.ModelResponse([messages.ToolCallPart("search", {"to": "Rome"})]),
            messages.ModelRequest([messages.ToolReturnPart("search", "LH1")]),
        ]

    first, second = history(), history()
    assert first[2].parts[0].tool_call_id != second[2].parts[0].tool_call_id
    identity = pydantic_ai.identity_of(first)
    assert identity == pydantic_ai.identity_of(second)
    other = [messages.ModelRequest([messages.UserPromptPart("stop")])]
    assert identity[:1] != pydantic_ai.identity_of(other)


#: What an item of OpenAI has: a provider gave it, or the framework took it from there.
OF_ITEMS = {
    *("id", "call_id", "approval_request_id", "container_id", "acknowledged"),
    *("fingerprint",),
}


def test_openai_agents_asks_a_model_with_nothing_that_the_tables_do_not_name() -> None:
    named = openai_agents.KEPT | openai_agents.LEFT_OUT
    asked = inspect.signature(agents.Model.get_response).parameters
    assert {*asked} - {"self"} == named

    for item in typing.get_args(ResponseInputItemParam):
        drawn = {name for name in item.__annotations__ if name.endswith(SUSPECT)}
        assert drawn <= OF_ITEMS, item


def test_two_runs_of_an_agent_of_openai_have_the_same_request() -> None:
    def asked(conversation: str) -> Any:
        given = {
            "system_instructions": "travel",
            "input": "Go to Rome",
            "model_settings": agents.ModelSettings(max_tokens=100),
            "tools": [agents.function_tool(print_it)],
            "conversation_id": conversation,
        }
        return openai_agents.identity_of(given)

    assert asked("one") == asked("two")
    assert asked("one")["tools"][0]["name"] == "print_it"


async def print_it(text: str) -> str:
    """Print a text."""
    return text


def test_langgraph_draws_nothing_anew_that_the_table_does_not_name() -> None:
    unnamed = []
    for kind in typing.get_args(typing.get_args(langchain.AnyMessage)[0]):
        message = typing.get_args(kind)[0] if typing.get_args(kind) else kind
        of_kind = str(message.model_fields["type"].default)
        left_out = langgraph.LEFT_OUT.get(of_kind, frozenset())
        for name, field in message.model_fields.items():
            make: Any = field.default_factory
            drawn = make is not None and make() != make()
            suspect = name == "id" or name.endswith(SUSPECT)
            if (drawn or suspect) and name not in left_out | OF_ANSWERS_IN_LANGGRAPH:
                unnamed.append((of_kind, name))
    assert unnamed == []


#: A stored answer has them; a tool repeats the id of the answer that asked for it.
OF_ANSWERS_IN_LANGGRAPH = {"response_metadata", "usage_metadata", "tool_call_id"}


def test_two_runs_of_a_graph_have_the_same_messages() -> None:
    def history(drawn: str) -> Any:
        asked = langchain.AIMessage(
            "", id=drawn, tool_calls=[{"name": "search", "args": {}, "id": "call"}]
        )
        found = langchain.ToolMessage("LH1", id=drawn, tool_call_id="call")
        return [langchain.HumanMessage("go", id=drawn), asked, found]

    identity = langgraph.identity_of(history("one"))
    assert identity == langgraph.identity_of(history("two"))
    assert [each["type"] for each in identity] == ["human", "ai", "tool"]
