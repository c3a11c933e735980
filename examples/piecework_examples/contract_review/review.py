"""Contract review: each clause is scored, analysed, published and reported, once.

Begin at the bottom: the pipeline is the table of its stages. The stages are above it,
in their order. The functions that they call are at the top.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import TypeVar

from piecework import (
    Context,
    Dependency,
    Effect,
    Pipeline,
    Results,
    Stage,
)
from piecework_examples.contract_review import addin, model
from piecework_examples.contract_review.clauses import Clause, label, split
from piecework_examples.contract_review.config import from_environment
from piecework_examples.contract_review.findings import (
    CategoryScore,
    ClauseReview,
    Finding,
)
from piecework_examples.contract_review.playbook import categories, specialists
from piecework_examples.contract_review.prompts import (
    SYSTEM,
    AnalysisAnswer,
    ScoreAnswer,
    analysis_prompt,
    placed,
    score_prompt,
)
from piecework_examples.contract_review.report import Report, ReportBuilder, render
from piecework_examples.contract_review.reviewing import Extract, extracted, reviewed

R = TypeVar("R")

word_addin = Dependency("word-addin", effect=Effect.PROVIDER_IDEMPOTENT)
#: The calls of the add-in: a reservation, a publication and a notice.
ADDIN_CALLS = 3


async def ask_score(heading: str, text: str, category: str) -> CategoryScore:
    """Ask the model how much a clause is about one category."""
    prompt = score_prompt(heading, text, category)
    said = await model.current().ask(
        SYSTEM, prompt, returns=ScoreAnswer, temperature=0.0
    )
    return CategoryScore(category=category, score=said.score, fired=said.fired)


async def ask_specialist(prompt: str, text: str, specialist: str) -> list[Finding]:
    """Ask the model what one specialist finds in a clause."""
    said = await model.current().ask(
        SYSTEM, prompt, returns=AnalysisAnswer, context={"text": text}, temperature=0.0
    )
    return placed(said, text, specialist)


async def all_of(calls: Iterable[Awaitable[R]]) -> list[R]:
    """Wait for every call, also when one fails, before the failure is raised.

    A plain gather would leave the other calls running. Here they end, and their answers
    are stored. So the next attempt of the chunk pays only for the call that failed.
    """
    done = await asyncio.gather(*calls, return_exceptions=True)
    failed = [each for each in done if isinstance(each, BaseException)]
    if len(failed) == 1 or not all(isinstance(each, Exception) for each in failed):
        raise next((f for f in failed if not isinstance(f, Exception)), failed[0])
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} calls failed", failed)
    return [each for each in done if not isinstance(each, BaseException)]


def extract(ctx: Context[Clause]) -> Extract:
    """Straighten the text. A plain function: it runs beside the event loop."""
    return extracted(ctx.payload.text)


async def score(ctx: Context[Clause]) -> list[CategoryScore]:
    """Score the clause in twelve categories at once."""
    heading, text = label(ctx.payload), ctx.result(extract).text
    return await all_of(ask_score(heading, text, name) for name in categories())


async def analyse(ctx: Context[Clause]) -> list[list[Finding]]:
    """Let eleven specialists read the clause side by side, some more than once."""
    return await all_of(analyses(ctx))


async def analyse_briefly(ctx: Context[Clause]) -> list[list[Finding]]:
    """Replace `analyse` after an answer that was cut off or did not fit its form.

    Another prompt is another call: each specialist is asked again.
    """
    return await all_of(analyses(ctx, briefly=True))


def analyses(
    ctx: Context[Clause], *, briefly: bool = False
) -> Iterator[Awaitable[list[Finding]]]:
    """Yield the readings of a clause, not awaited yet."""
    heading, text = label(ctx.payload), ctx.result(extract).text
    for name, reading in readings(from_environment().calls):
        prompt = analysis_prompt(heading, text, name, reading, briefly=briefly)
        yield ask_specialist(prompt, text, name)


def readings(calls: int) -> Iterator[tuple[str, int]]:
    """Yield specialist and number of each reading, for that many calls of the model."""
    names = list(specialists())
    for place in range(calls - len(categories())):
        yield names[place % len(names)], place // len(names) + 1


def merge(ctx: Context[Clause]) -> ClauseReview:
    """Put the answers together; this is the result of the chunk."""
    return reviewed(
        ctx.payload, ctx.result(extract), ctx.result(score), ctx.result(analyse)
    )


async def reserve(ctx: Context[Clause]) -> addin.Slot:
    """Hold a place in the reader's margin."""
    return await ctx.call(word_addin, addin.reserve_slot, ctx.job, ctx.payload.number)


async def release(ctx: Context[Clause]) -> None:
    """Compensate `reserve`; safe without a reservation."""
    await ctx.call(word_addin, addin.release_slot, ctx.job, ctx.payload.number)


async def publish(ctx: Context[Clause]) -> addin.Publication:
    """Show the findings to the reader: from here on the chunk only goes forward."""
    slot, findings = ctx.result(reserve).slot, list(ctx.result(merge).findings)
    return await ctx.call(
        word_addin, addin.publish_findings, ctx.job, ctx.payload.number, slot, findings
    )


async def notify(ctx: Context[Clause]) -> addin.Notice:
    """Tell the reader that the clause is done."""
    worst = ctx.result(merge).worst
    return await ctx.call(
        word_addin, addin.notify_reader, ctx.job, ctx.payload.number, worst
    )


async def report(results: Results) -> Report:
    """Write report.md and report.html from whatever finished."""
    builder = ReportBuilder(job=results.job)
    async for item in results:
        builder.add(item.chunk, item.value)
    for gap in results.missing:
        builder.miss(gap.chunk, gap.label, gap.status, gap.error_code)
    page = builder.page()
    await results.write("report.md", render(page, "report.md.j2"), "text/markdown")
    await results.write("report.html", render(page, "report.html.j2"), "text/html")
    return page.report


pipeline = Pipeline(
    name="contract-review",
    payload=Clause,
    split=split,
    stages=[
        Stage(extract),
        Stage(score),
        Stage(analyse, replan=analyse_briefly),
        Stage(merge),
        Stage(reserve, compensate=release),
        # Stages above can be compensated; stages below only go forward.
        Stage(publish, pivot=True),
        Stage(notify),
    ],
    result=merge,
    join=report,
    label=label,
    calls_per_chunk=from_environment().calls + ADDIN_CALLS,
    owner="contract-review",
    runbook="docs/runbooks/dead-letters.md",
)
