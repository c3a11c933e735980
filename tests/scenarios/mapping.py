"""The pipelines of the scenarios in which stages map."""

from __future__ import annotations

from itertools import count as count_from

from pydantic import BaseModel

from piecework import Context, Dependency, PermanentError, Pipeline, Stage, Usage
from tests.scenarios.pipelines import QUICK, fixed, note, pass_hold

clerk = Dependency("clerk", retry=QUICK, usage=lambda n: Usage(tokens_in=10))
planner = Dependency("planner", retry=QUICK)


class Leaf(BaseModel):
    """A row of a child; one with trouble has no result until it is fixed."""

    n: int
    trouble: bool = False
    seconds: float = 0.0


class Tree(BaseModel):
    """A chunk that maps so many rows, on so many levels."""

    n: int
    rows: int = 3
    bad: int = -1
    seconds: float = 0.0
    delay: float = 0.0


async def count_leaf(number: int) -> int:
    """Count, for money."""
    note("leaf", number)
    return number


async def plan_tree(number: int) -> int:
    """Plan, for money."""
    note("plan", number)
    return number


async def count(ctx: Context[Leaf]) -> int:
    """Count one row, after a while."""
    leaf = ctx.payload
    await pass_hold("leaf", leaf.n)
    if leaf.seconds:
        await ctx.sleep(leaf.seconds)
    if leaf.trouble and not fixed():
        message = "the leaf is ill"
        raise PermanentError(message, code="tool.input.invalid")
    return await ctx.call(clerk, count_leaf, leaf.n)


leaves = Pipeline("leaves", payload=Leaf, stages=[Stage(count)])


async def spread(ctx: Context[Tree]) -> list[int]:
    """Plan, then map the rows of a chunk."""
    tree = ctx.payload
    await ctx.sleep(tree.delay)
    first = await ctx.call(planner, plan_tree, tree.n)
    rows = [
        Leaf(n=first * 100 + i, trouble=i == tree.bad, seconds=tree.seconds)
        for i in range(tree.rows)
    ]
    found = await ctx.map(leaves, rows)
    failed = [f.row async for f in found.failures()]
    note("mapped", tree.n, found.status, *failed)
    return [each.value async for each in found]


async def sum_up(ctx: Context[Tree]) -> int:
    """Add the results of the rows."""
    return sum(ctx.result(spread))


trees = Pipeline("trees", payload=Tree, stages=[Stage(spread), Stage(sum_up)])


async def plant(ctx: Context[Tree]) -> int:
    """Map chunks that map: a child of a child."""
    found = await ctx.map(trees, [ctx.payload])
    return sum(await found.values())


forests = Pipeline("forests", payload=Tree, stages=[Stage(plant)])


async def need(ctx: Context[Tree]) -> int:
    """Need the result of each row."""
    tree = ctx.payload
    rows = [Leaf(n=tree.n * 100 + i, trouble=i == tree.bad) for i in range(tree.rows)]
    return sum(await (await ctx.map(leaves, rows)).values())


needy = Pipeline("needy", payload=Tree, stages=[Stage(need)])


async def drift(ctx: Context[Tree]) -> int:
    """Map rows that are others in each run."""
    drawn = [Leaf(n=next(DRAWN)) for _ in range(ctx.payload.rows)]
    return (await ctx.map(leaves, drawn)).succeeded


DRAWN = count_from(1000)
drifting = Pipeline("drifting", payload=Tree, stages=[Stage(drift)])


async def walk(ctx: Context[Tree]) -> int:
    """Map the rows one after the other."""
    found = [await ctx.map(leaves, [Leaf(n=n)]) for n in range(ctx.payload.rows)]
    return sum(each.succeeded for each in found)


walking = Pipeline("walking", payload=Tree, stages=[Stage(walk)])
