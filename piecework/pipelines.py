"""The declaration of a pipeline: a name and a table of stages.

The stages run in order, and are compensated in reverse order. Each stage before the
pivot has a compensation or leaves no effect. From the first intent of the pivot on, the
chunk only goes forward.
"""

from __future__ import annotations

import typing
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import KW_ONLY, dataclass, field
from inspect import (
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    unwrap,
)
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, get_args

from typing_extensions import TypeVar

from piecework.domain.keys import DEFAULT_QUEUE, is_name, is_queue_name
from piecework.errors import UsageError
from piecework.errors.codes import Code, row_errors

if TYPE_CHECKING:
    from pydantic import BaseModel

    from piecework.context import Context, Results
    from piecework.domain.ladder import Ladder
    from piecework.domain.notification import NotifyFunction

#: The payload of a pipeline and of its stages; without it any payload is accepted.
P = TypeVar("P", bound="BaseModel", default=Any)

#: A function of the context. An `async def` runs on the event loop; a plain `def` runs
#: in a thread.
StageFunction: TypeAlias = Callable[[Any], Any]

#: How hard it is to compensate a stage.
Reversibility: TypeAlias = Literal["easy", "hard", "impossible"]

JOIN = "join"


@dataclass(frozen=True, slots=True)
class Document:
    """A submitted text, with the name that the user gave it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Stage(Generic[P]):
    """One function of a pipeline; its value is checkpointed.

    Attributes:
        run: The function. Its return annotation types `ctx.result(run)`.
        compensate: Compensates the stage. It runs if the stage has completed, or if an
            effect of its calls has happened or may have.
        undo_if_failed: Compensate the stage after each of its failures, also if no
            effect of its calls happened. This is for a stage that changes something
            outside of its calls. `compensate` must be safe if nothing was changed.
        pivot: From the first intent of this stage on, the chunk only goes forward.
        timeout: Seconds that one run of the stage may take; None: the chunk's limit.
        isolate: Run the stage and its compensation in a separate process. This is for
            code that may kill its process, or hang without a way to interrupt it.
        memory_mb: Megabytes that an isolated stage may use in addition to its process
            at the start; 0: no limit; None: the setting `stage_memory_mb`.
        name: The name in tables and keys; defaults to the function's name.
        replan: Runs instead of `run` after a semantic failure. It is a stage function
            that returns the same type, and reads the failure in `ctx.failure`.
        max_replans: The largest number of replans in one attempt of the chunk.
        fallback: Stage functions that return the same type; the next one runs if a
            policy refused the one before.
        reversibility: How hard the stage is to compensate; `lint_stage_order` uses it.
            None without a compensation: the stage leaves no effect.
    """

    run: Callable[[Context[P]], Any]
    compensate: Callable[[Context[P]], Any] | None = None
    pivot: bool = False
    timeout: float | None = None
    name: str = ""
    isolate: bool = False
    memory_mb: int | None = None
    replan: Callable[[Context[P]], Any] | None = None
    max_replans: int = 1
    fallback: Sequence[Callable[[Context[P]], Any]] = ()
    reversibility: Reversibility | None = None
    undo_if_failed: bool = False

    def __post_init__(self) -> None:
        for function in (self.run, self.compensate, self.replan, *self.fallback):
            require_function(function)
        if not self.name:
            object.__setattr__(self, "name", self.run.__name__)
        object.__setattr__(self, "fallback", tuple(self.fallback))
        if self.reversibility is None and self.compensate is not None:
            object.__setattr__(self, "reversibility", "easy")


def require_function(function: object) -> None:
    """Refuse what a call of the function returned in place of the function.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if function is None or callable(function):
        return
    step = "Pass the function itself, without calling it."
    kind = type(function).__name__.replace("_", " ")
    message = f"A stage is a function, not a value of type {kind}."
    if isinstance(function, Coroutine):
        function.close()
        message = "A stage is a function, not the coroutine that its call returned."
    elif isinstance(function, Generator | AsyncGenerator):
        message = "A stage is a function, not the generator that its call returned."
    raise UsageError(message, code="pipeline.declaration.invalid", next_step=step)


@dataclass(frozen=True, slots=True)
class Pipeline(Generic[P]):
    """A name, a split, ordered stages and a join.

    Attributes:
        payload: The model of a chunk's payload; validated at submit and at the worker.
        split: Splits a document into payloads; without it only rows (JSONL) can be
            submitted.
        result: The stage whose value is the chunk's result; default: the last.
        join: Runs after every chunk has ended, with the results that exist.
        label: A few words (64 characters) that name a chunk in tables.
        ordered_by: The order key of a payload, up to 256 characters. Chunks with the
            same key run one after another, in the order of the input. Chunks of other
            keys run beside them. A chunk with the key None waits for no other.
        queue: The queue of its chunks: only workers with a pipeline of this queue
            receive from it. Lower-case letters, digits and '-', 30 characters at most.
            Empty: the default queue, which each deployment has.
        calls_per_chunk: For the estimate of `submit --dry-run`.
        owner: The person or team for its dead letters; each dead letter has it. Empty:
            that of the deployment.
        runbook: The address of the instructions for dead letters; each one has it.
            Empty: that of the deployment.
        codes: The rows of the error codes that its functions raise. A dead letter of
            one stores its cause and recovery; of a code without a row it says so.
        ladder: What happens to a chunk that fails, and when. It has the delays of the
            attempts, and the rungs that an open dead letter reaches. A job that was
            submitted without rungs never has them.
        notify: The hook that a worker calls, at least once, when a job has ended or its
            deadline has passed. A job that was submitted without it never has it.

    Raises:
        UsageError: `pipeline.declaration.invalid`: the table of stages breaks a rule of
            the saga.
    """

    name: str
    _: KW_ONLY
    stages: Sequence[Stage[P]]
    payload: type[P]
    split: Callable[[Document], Iterable[P]] | None = None
    result: Callable[[Context[P]], Any] | None = None
    join: Callable[[Results], Awaitable[Any]] | None = None
    label: Callable[[P], str] | None = None
    ordered_by: Callable[[P], str | int | None] | None = None
    queue: str = ""
    calls_per_chunk: int | None = None
    owner: str = ""
    runbook: str = ""
    notify: NotifyFunction | None = None
    ladder: Ladder | None = None
    codes: Sequence[Code] = ()
    #: The names of the stages by their functions.
    names: Mapping[StageFunction, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Validate the declaration, so that a mistake shows at import."""
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "codes", tuple(self.codes))
        for problem in validation_errors(self):
            message = f"Pipeline {self.name!r}: {problem}."
            raise UsageError(
                message,
                code="pipeline.declaration.invalid",
                next_step="Correct the declaration of the pipeline.",
            )
        from piecework.domain.result_types import require_kept  # loads pydantic

        forward = [f for s in self.stages for f in (s.run, s.replan, *s.fallback)]
        require_kept(self.payload, *filter(None, (*forward, self.join)))
        object.__setattr__(self, "names", {s.run: s.name for s in self.stages})

    def retry_delay_s(self, attempt: int) -> float | None:
        """Return the declared seconds after a failed attempt; None without a ladder."""
        return None if self.ladder is None else self.ladder.retry_delay_s(attempt)

    @property
    def functions(self) -> list[StageFunction]:
        """The functions of its stages and its join."""
        found: list[StageFunction | None] = [self.join]
        for stage in self.stages:
            found += [stage.run, stage.compensate, stage.replan, *stage.fallback]
        return [function for function in found if function is not None]

    @property
    def result_index(self) -> int:
        """The position of the stage whose value is the chunk's result."""
        if self.result is None:
            return len(self.stages) - 1
        return list(self.names).index(self.result)

    @property
    def pivot_index(self) -> int:
        """The position of the pivot; past the end without a pivot."""
        pivots = [i for i, stage in enumerate(self.stages) if stage.pivot]
        return pivots[0] if pivots else len(self.stages)

    @property
    def pivot_name(self) -> str:
        """The name of the pivot; empty without a pivot."""
        return next((stage.name for stage in self.stages if stage.pivot), "")


def validation_errors(pipeline: Pipeline) -> list[str]:
    """Return a clause for each rule of the saga that a declaration breaks."""
    names = [stage.name for stage in pipeline.stages]
    pivot = pipeline.pivot_index
    found = []
    if not is_name(pipeline.name):
        found.append("its name may hold letters, digits, '-' and '_' (64 at most)")
    found += queue_errors(pipeline.queue)
    if not names:
        found.append("it has no stage")
    found += [stage_name_error(name) for name in names if not is_name(name)]
    if len(set(names)) < len(names):
        found.append("two stages have the same name")
    if sum(stage.pivot for stage in pipeline.stages) > 1:
        found.append("it has more than one pivot")
    found += [
        f"{stage.name!r} has a compensation, but is at or after the pivot"
        for stage in pipeline.stages[pivot:]
        if stage.compensate
    ]
    found += [
        f"the reversibility of {stage.name!r} is {stage.reversibility!r}, "
        f"not one of {get_args(Reversibility)}"
        for stage in pipeline.stages
        if stage.reversibility not in (None, *get_args(Reversibility))
    ]
    found += [
        f"{stage.name!r} has a compensation, but its reversibility is 'impossible'"
        for stage in pipeline.stages
        if stage.reversibility == "impossible" and stage.compensate
    ]
    found += [
        f"{stage.name!r} has a memory limit, but is not isolated"
        for stage in pipeline.stages
        if stage.memory_mb is not None and not stage.isolate
    ]
    for stage in pipeline.stages:
        found += stage_errors(stage)
    runs = [stage.run for stage in pipeline.stages]
    if len(set(runs)) < len(runs):
        found.append("one function runs two stages")
    if pipeline.result is not None and pipeline.result not in runs:
        found.append("its result is not one of its stages")
    if pipeline.notify is not None and not iscoroutinefunction(pipeline.notify):
        found.append("its notify hook is not an `async def`")
    if pipeline.ladder is not None:
        found += pipeline.ladder.errors()
    return found + row_errors(pipeline.codes)


def queue_errors(queue: str) -> list[str]:
    """Return why a text names no queue, which tables and names in SQS have."""
    if queue == DEFAULT_QUEUE:
        return [f"its queue is {queue!r}: leave `queue` out for the default queue"]
    if queue and not is_queue_name(queue):
        rule = "lower-case letters, digits and '-' (30 at most, a letter first)"
        return [f"its queue {queue!r} is not a name of {rule}"]
    return []


def stage_name_error(name: str) -> str:
    """Return why a name is not one of a stage, which tables and messages have."""
    if name == "<lambda>":
        return "a stage is a lambda without a name: write a `def`, or `name=`"
    return f"{name!r} is not a stage name"


# ── lint the order of a pipeline's stages ─────────────────────────────────────
#
# The earlier a stage runs, the more often a later stage fails and the stage must be
# compensated. So stages that are easy to compensate come first. Stages that are hard to
# compensate come last before the pivot. A stage that cannot be compensated is the
# pivot, or follows it.


def lint_stage_order(pipeline: Pipeline) -> list[str]:
    """Return one sentence for each change that makes compensation shorter or safer."""
    before_the_pivot = pipeline.stages[: pipeline.pivot_index]
    pivot = [stage.name for stage in pipeline.stages[pipeline.pivot_index :]][:1]
    return [
        *hard_before_easy(before_the_pivot),
        *without_compensation(before_the_pivot, *pivot),
        *numbers_without_order(pipeline),
    ]


def numbers_without_order(pipeline: Pipeline) -> Iterator[str]:
    """Yield a sentence for each stage that numbers its calls, without an order key.

    Only the globals that a stage names are known: what these call is not seen.
    """
    from piecework.dependency import DeclaredCall, Dependency
    from piecework.idempotency.strategies import SequenceNumbers

    for stage in pipeline.stages if pipeline.ordered_by is None else ():
        function = unwrap(stage.run)
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        for name in names:
            found = getattr(function, "__globals__", {}).get(name)
            known = found.dependency if isinstance(found, DeclaredCall) else found
            if isinstance(known, Dependency) and isinstance(known.by, SequenceNumbers):
                yield (
                    f"{stage.name!r} numbers its calls of {known.name!r}: add "
                    "`ordered_by=`, so that no chunk waits for an earlier number."
                )
                break


def missing_contacts(pipeline: Pipeline) -> list[str]:
    """Return one sentence for each contact that its dead letters lack of their own."""
    found = {"owner": pipeline.owner, "runbook": pipeline.runbook}
    return [
        f"pipeline {pipeline.name!r} has no `{name}=`: its dead letters will name "
        f"that of the deployment, PIECEWORK_{name.upper()}."
        for name, value in found.items()
        if not value
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


# ── variants of a stage ───────────────────────────────────────────────────────
#
# variant       function               runs after
# run           the stage's own
# replan        the `replan` hook      a semantic failure
# fallback.N    the Nth `fallback`     a policy failure
# compensate    `compensate`           a final failure, or a cancel

RUN: Final = "run"
COMPENSATE: Final = "compensate"
REPLAN: Final = "replan"


def variants(stage: Stage) -> Mapping[str, StageFunction]:
    """Return the functions of a stage by the names of their variants."""
    named = {RUN: stage.run, COMPENSATE: stage.compensate, REPLAN: stage.replan}
    named |= dict(zip(fallback_names(stage), stage.fallback, strict=True))
    return {name: function for name, function in named.items() if function is not None}


def function_of(stage: Stage, variant: str) -> StageFunction:
    """Return the function of a variant; `run` is looked up fastest."""
    return stage.run if variant == RUN else variants(stage)[variant]


def fallback_names(stage: Stage) -> list[str]:
    """Return the names of the variants of the fallback chain, in order."""
    return [f"fallback.{number}" for number, _ in enumerate(stage.fallback, 1)]


def stage_errors(stage: Stage) -> list[str]:
    """Return a clause for each variant of a stage that could never help."""
    found = []
    if stage.max_replans < 1:
        found.append(f"{stage.name!r} may be replanned {stage.max_replans} times")
    if len({stage.run, *stage.fallback}) <= len(stage.fallback):
        found.append(f"{stage.name!r} would fall back to a function that failed before")
    if stage.undo_if_failed and stage.compensate is None:
        found.append(f"{stage.name!r} has `undo_if_failed`, but no compensation")
    if stage.compensate is not None and is_generator(stage.compensate):
        found.append(f"the compensation of {stage.name!r} yields, and would do nothing")
    named = variants(stage).items()
    forward = [function for name, function in named if name != COMPENSATE]
    if len({result_type(function) for function in forward} - {Any}) > 1:
        found.append(f"the variants of {stage.name!r} do not all return the same type")
    return found


def is_generator(function: Callable[..., Any]) -> bool:
    """Return whether a call of a function only creates a generator."""
    return isgeneratorfunction(function) or isasyncgenfunction(function)


def result_type(function: Callable[..., Any]) -> Any:
    """Return the declared type of a result; Any where it cannot be resolved yet."""
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any
