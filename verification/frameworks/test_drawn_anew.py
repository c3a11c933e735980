"""The tables of what stands in no key, beside the types of the installed version."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from pydantic_ai import messages

from piecework.integrations import pydantic_ai

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
