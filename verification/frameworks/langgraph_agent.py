"""An agent in LangGraph: it searches, books, and says what it has booked."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from piecework import pipeline
from piecework.integrations.langgraph import (
    idempotency_key,
    remembered_model,
    remembered_tools,
)
from verification.frameworks.paid import pay
from verification.frameworks.trip import AIRLINE, Trip, main


class Thinking(BaseChatModel):
    """Be a model: search first, then book, then answer."""

    @property
    def _llm_type(self) -> str:
        return "thinking"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Describe the tools as a provider wants them."""
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Answer by the outputs of tools so far."""
        outputs = [each.content for each in messages if each.type == "tool"]
        number = len(outputs) + 1
        await pay(f"request {number}")
        assert [each["function"]["name"] for each in kwargs["tools"]]
        wanted = [("search", {"to": "Rome"}), ("book", {"flight": "".join(outputs)})]
        calls, said = [], ""
        if number <= len(wanted):
            name, args_ = wanted[number - 1]
            calls = [{"name": name, "args": args_, "id": f"call-{number}"}]
        else:
            said = f"booked {outputs[1]}"
        usage: Any = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        message = AIMessage(said, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
async def search(to: str) -> str:
    """Return a flight."""
    await pay("search")
    return f"LH1 to {to}"


@tool
async def book(flight: str) -> str:
    """Book a flight."""
    await pay("book", idempotency_key())
    return f"{flight} in 12A"


tools = remembered_tools([search, book], {"book": AIRLINE})
model = remembered_model(Thinking()).bind_tools(tools)


async def think(state: MessagesState) -> dict[str, Any]:
    """Ask the model."""
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("think", think)
builder.add_node("tools", ToolNode(tools))
builder.add_edge(START, "think")
builder.add_conditional_edges("think", tools_condition)
builder.add_edge("tools", "think")
agent = builder.compile()


@pipeline
async def travel(trip: Trip) -> str:
    """Run the graph."""
    done = await agent.ainvoke({"messages": [("user", f"Go to {trip.to}")]})
    return str(done["messages"][-1].content)


if __name__ == "__main__":
    from verification.frameworks import langgraph_agent  # a child imports it

    main(langgraph_agent.travel)
