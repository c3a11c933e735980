"""A LangGraph agent that books once although its graph runs again."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from piecework import RetryPolicy
from piecework.standalone import MemoryIdempotency, idempotent, retry


class Trip(TypedDict, total=False):
    """The state of the graph; the ids are the same in every run."""

    user_id: str
    task_id: str
    flight: str
    seat: str
    paid: str


store = MemoryIdempotency()  # with checkpoints that outlive the process: a table
asked: list[str] = []  # the requests that the providers received


@idempotent(store, scope=lambda user, task, **_: f"{user}/{task}")
@retry(RetryPolicy(attempts=3))
async def sell(user: str, task: str, flight: str, idempotency_key: str = "") -> str:
    """Sell a seat as the airline would; it receives the key."""
    asked.append(f"sell {flight} to {user} for {task}")
    return f"12A, booked as {idempotency_key[:8]}"


async def book(state: Trip) -> Trip:
    """Book: a node. Its arguments are the same in every run."""
    return {"seat": await sell(state["user_id"], state["task_id"], state["flight"])}


async def pay(state: Trip) -> Trip:
    """Pay: a node that fails in the first run."""
    asked.append(f"pay for {state['seat'][:3]}")
    if asked.count(asked[-1]) == 1:
        raise RuntimeError("the bank is closed")
    return {"paid": "yes"}


graph = StateGraph(Trip)
graph.add_node("book", book)
graph.add_node("pay", pay)
graph.add_edge(START, "book")
graph.add_edge("book", "pay")
graph.add_edge("pay", END)
agent = graph.compile()


async def main() -> None:
    """Run the graph until it ends."""
    trip: Trip = {"user_id": "ann", "task_id": "trip-1", "flight": "LH1"}
    try:
        await agent.ainvoke(trip)
    except RuntimeError as error:
        print("failed:", error)
    print((await agent.ainvoke(trip))["paid"], asked)


if __name__ == "__main__":
    asyncio.run(main())
