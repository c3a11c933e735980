"""The page of the parts alone: its examples are files, and they do what it says."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
import structlog

from piecework.idempotency.record import State
from tests.docs.pages import ENDS, ROOT, edges, fenced
from tests.unit.virtual import run_virtually

PAGE = ROOT / "docs/standalone.md"
FRAMEWORKS = ROOT / "docs/frameworks.md"
Node = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class StateGraph:
    """As much of LangGraph's as a chain of nodes needs."""

    def __init__(self, _: type) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[str, str] = {}

    def add_node(self, name: str, node: Node) -> None:
        self.nodes[name] = node

    def add_edge(self, start: str, end: str) -> None:
        self.edges[start] = end

    def compile(self) -> StateGraph:
        return self

    async def ainvoke(self, state: Mapping[str, Any]) -> dict[str, Any]:
        reached, at = dict(state), self.edges["start"]
        while at != "end":
            reached |= await self.nodes[at](reached)
            at = self.edges[at]
        return reached


@pytest.fixture
def langgraph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for LangGraph where it is not installed."""
    if importlib.util.find_spec("langgraph") is None:
        graph: Any = ModuleType("langgraph.graph")
        graph.StateGraph, graph.START, graph.END = StateGraph, "start", "end"
        monkeypatch.setitem(sys.modules, "langgraph", ModuleType("langgraph"))
        monkeypatch.setitem(sys.modules, "langgraph.graph", graph)


@pytest.mark.parametrize("name", ["booking", "langgraph_booking", "temporal_booking"])
def test_the_examples_of_the_page_are_the_ones_that_run(name: str) -> None:
    source = (ROOT / f"examples/piecework_examples/standalone/{name}.py").read_text(
        "utf-8"
    )

    assert source in [*fenced(PAGE, "python"), *fenced(FRAMEWORKS, "python")]


def test_the_plain_function_does_what_the_page_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_virtually(afresh("booking").main())

    assert capsys.readouterr().out in fenced(PAGE, "")


def test_a_graph_that_is_run_again_books_once(
    langgraph: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run_virtually(afresh("langgraph_booking").main())

    failed, paid = capsys.readouterr().out.splitlines()
    assert "failed: the bank is closed" == failed
    assert "yes" == paid[:3]
    assert (1, 2) == (paid.count("sell LH1 to ann"), paid.count("pay for 12A"))


def afresh(name: str) -> Any:
    """Import an example that no test has run, in a program that sets no log up."""
    structlog.reset_defaults()
    sys.modules.pop(f"piecework_examples.standalone.{name}", None)
    return importlib.import_module(f"piecework_examples.standalone.{name}")


def test_the_drawing_has_exactly_the_states_of_a_record() -> None:
    states = {end for edge in edges("record") for end in edge}

    assert set(State) == {State(state) for state in states - ENDS}
