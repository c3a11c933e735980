"""The form of an answer, made from the JSON schema that is stored with its question.

A text, a number, yes or no, and a choice have fields of their own. An operator writes
every other value as JSON. A field that is left empty is not sent, so that its default
applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from piecework.answers import MOST_BYTES
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import UsageError
from piecework_orchestrator.ui.action import Field, Fields

#: Before the name of each property in the form, and the name of a whole answer as JSON.
PREFIX: Final = "answer."
WHOLE: Final = "answer"
#: The answer of yes or no has two buttons with this name instead of fields.
DECISION: Final = "decision"
#: The properties of `piecework.Approval`.
APPROVAL: Final = frozenset({"approved", "comment"})


def is_approval(schema: Mapping[str, Any]) -> bool:
    """Return whether an answer is a plain yes or no, whose comment is the reason."""
    return set(schema.get("properties", ())) == APPROVAL


def fields_of(schema: Mapping[str, Any]) -> Sequence[Field]:
    """Return the fields of the form of an answer."""
    if is_approval(schema):
        return ()
    parts = list(parts_of(schema))
    if not parts:
        return (Field(WHOLE, "Answer", "json", "A JSON value.", "null"),)
    required = set(schema.get("required", ()))
    return [field_of(name, node, name in required) for name, node in parts]


def field_of(name: str, node: Mapping[str, Any], is_required: bool) -> Field:  # noqa: FBT001
    """Return the field of a property; its options are JSON values."""
    kind, options = kind_of(node)
    help_ = [str(node.get("description", "")), *limits_of(node)]
    if kind == "json":
        help_.append("a JSON value")
    if not is_required and "default" in node:
        help_.append(f"if empty: {json.dumps(node['default'], ensure_ascii=False)}")
    return Field(
        f"{PREFIX}{name}",
        str(node["title"]),
        kind,
        "; ".join(part for part in help_ if part),
        options=tuple(options),
        step="1" if node.get("type") == "integer" else "any",
        required=is_required,
    )


def kind_of(node: Mapping[str, Any]) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return the kind of a field, and its options: each as JSON, and for people."""
    if choices := node.get("enum", [node["const"]] if "const" in node else []):
        return "select", [(json.dumps(each), str(each)) for each in choices]
    match node.get("type"):
        case "boolean":
            return "select", [("true", "yes"), ("false", "no")]
        case "integer" | "number":
            return "number", ()
        case "string":
            return "text", ()
        case _:
            return "json", ()


def limits_of(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person should know of the limits of a value."""
    for name, words in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
        ("maxLength", "characters, at most"),
        ("pattern", "pattern"),
        ("format", "format"),
    ):
        if name in node:
            yield f"{words} {node[name]}"


def parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each property with what is known of it: references are followed."""
    defs = schema.get("$defs", {})
    for name, node in schema.get("properties", {}).items():
        variants = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
        inner = variants[0] if len(variants) == 1 else node
        target = defs.get(str(inner.get("$ref", "")).rpartition("/")[2], {})
        told = {"title": name.replace("_", " ").capitalize(), "description": ""}
        yield name, {**target, **inner, **told, **node}


# ── read a form ───────────────────────────────────────────────────────────────


def read_answer(schema: Mapping[str, Any], fields: Fields) -> Any:
    """Return the answer of a form as a JSON value.

    Raises:
        UsageError: `approval.answer.invalid`: neither yes nor no was chosen, or a field
            is not JSON.
    """
    if is_approval(schema):
        if fields.get(DECISION) not in {"yes", "no"}:
            raise invalid("choose to approve or to reject")
        return {"approved": fields[DECISION] == "yes", "comment": fields["reason"]}
    if WHOLE in fields:
        return read_value(WHOLE, fields[WHOLE])
    return {
        name: text if is_text(node) else read_value(name, text)
        for name, node in parts_of(schema)
        if (text := fields.get(f"{PREFIX}{name}", ""))
        or (is_text(node) and name in schema.get("required", ()))
    }


def is_text(node: Mapping[str, Any]) -> bool:
    """Return whether the field of a property has the text itself, not JSON."""
    return kind_of(node)[0] == "text"


def read_value(name: str, text: str) -> Any:
    """Return the JSON value of a field.

    Raises:
        UsageError: `approval.answer.invalid`.
    """
    try:
        return read_json(text, Bounds(MOST_BYTES))
    except JsonRefusedError:
        raise invalid(f"{name} is not JSON") from None


def invalid(problem: str) -> UsageError:
    """Return the error of a form that has no answer."""
    message = f"The answer is not accepted: {problem}."
    return UsageError(message, code="approval.answer.invalid")
