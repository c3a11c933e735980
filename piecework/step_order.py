"""Lint the order of a pipeline's stages: stages that are hard to reverse come late.

The earlier a stage runs, the more often a later stage fails and the stage must be
compensated. So stages that are easy to reverse come first. Stages that are hard to
reverse come last before the pivot. A stage that cannot be reversed is the pivot, or
follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from piecework.pipeline import Pipeline, Stage


def lint_stage_order(pipeline: Pipeline) -> list[str]:
    """Return one sentence for each change that makes compensation shorter or safer."""
    before_the_pivot = pipeline.stages[: pipeline.pivot_index]
    pivot = [stage.name for stage in pipeline.stages[pipeline.pivot_index :]][:1]
    return [
        *hard_before_easy(before_the_pivot),
        *without_compensation(before_the_pivot, *pivot),
    ]


def hard_before_easy(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield a sentence for each hard stage before an easy one."""
    for index, stage in enumerate(stages):
        easier = [s.name for s in stages[index + 1 :] if s.reversibility == "easy"]
        if stage.reversibility == "hard" and easier:
            yield (
                f"{stage.name!r} is hard to reverse and runs before {easier[-1]!r}, "
                f"which is easy to reverse: move it after {easier[-1]!r}."
            )


def without_compensation(stages: Sequence[Stage], pivot: str = "") -> Iterator[str]:
    """Yield a sentence for each stage before the pivot that cannot be compensated."""
    for stage in stages:
        if stage.reversibility == "impossible":
            step = (
                f"move it after {pivot!r}, the pivot" if pivot else "make it the pivot"
            )
            there = "runs before the pivot" if pivot else "there is no pivot"
            yield f"{stage.name!r} cannot be reversed, and {there}: {step}."
        elif stage.reversibility and not stage.compensate:
            yield (
                f"{stage.name!r} is {stage.reversibility} to reverse, but has no "
                "compensation: add one."
            )
