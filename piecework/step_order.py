"""Advice on the order of a pipeline's stages: what is hard to undo comes late.

The earlier a stage stands, the more often something after it fails and it has to be
undone. So what is easily undone comes first, what is hardly undone comes last before
the pivot, and what cannot be undone is the pivot, or comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from piecework.pipeline import Pipeline, Stage


def lint_stage_order(pipeline: Pipeline) -> list[str]:
    """Return what would make the way back shorter or safer, each as a sentence."""
    before_the_pivot = pipeline.stages[: pipeline.pivot_index]
    pivot = [stage.name for stage in pipeline.stages[pipeline.pivot_index :]][:1]
    return [
        *hard_before_easy(before_the_pivot),
        *without_compensation(before_the_pivot, *pivot),
    ]


def hard_before_easy(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield a sentence for each stage that is harder to undo than one after it."""
    for index, stage in enumerate(stages):
        easier = [s.name for s in stages[index + 1 :] if s.reversibility == "easy"]
        if stage.reversibility == "hard" and easier:
            yield (
                f"{stage.name!r} is hard to undo and stands before {easier[-1]!r}, "
                f"which is easy to undo: move it behind {easier[-1]!r}."
            )


def without_compensation(stages: Sequence[Stage], pivot: str = "") -> Iterator[str]:
    """Yield a sentence for each stage before the pivot whose effect would stay."""
    for stage in stages:
        if stage.reversibility == "impossible":
            step = f"move it behind {pivot!r}, the pivot" if pivot else "make it that"
            there = "stands before the pivot" if pivot else "there is no pivot"
            yield f"{stage.name!r} cannot be undone, and {there}: {step}."
        elif stage.reversibility and not stage.compensate:
            yield (
                f"{stage.name!r} is {stage.reversibility} to undo, and nothing does: "
                "give it a compensation."
            )
