"""Make one call of a stage, so that it is paid for once.

fallbacks  the first dependency that does not refuse -> pure or effect
pure       journal -> cache shared with other jobs -> attempts -> journal
effect     ledger: what happened so far -> attempts, with the intent -> answer in ledger

A dependency with `by` asks before the attempts for an equal call of another chunk.

The ways of a call are in one file, because they share the state of one `Caller`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from piecework import telemetry
from piecework.answers import accepts
from piecework.calls.attempts import Attempts
from piecework.calls.batched import BatchedCalls, Held, said_of
from piecework.calls.call import (
    Call,
    CallAttempts,
    CallCounts,
    CallScope,
    call_key,
    copy_arguments,
)
from piecework.calls.earlier import (
    QUIET_S,
    EarlierCalls,
    site_text,
    was_not_asked,
    would_repeat,
)
from piecework.calls.equal_calls import AnsweredBefore, EqualCalls, operation_ref
from piecework.calls.fallback import answered_by_key, call_with_fallbacks
from piecework.calls.in_flight import EffectDrain, InFlight
from piecework.calls.pause_gate import PauseGate
from piecework.calls.unstable import KeyWatch, Site
from piecework.dependency import Dependency, FallbackUsed, effect_unknown_error
from piecework.domain import keys, values
from piecework.domain.argument_digests import argument_digests
from piecework.domain.arguments import digest_of
from piecework.domain.child import child_id
from piecework.domain.effect import Effect
from piecework.domain.identity import CalledFunctions, function_text
from piecework.domain.map_rows import MapRows
from piecework.domain.moments import iso
from piecework.domain.outcome import (
    CHANGED_CODE,
    MAX_BUDGET_DEFERRALS,
    OTHER_WORKERS,
    Asking,
    Deferred,
    Sleeping,
)
from piecework.domain.protocols import (
    AlreadyDone,
    CancelRequestedError,
    ChildEnd,
    Children,
    ClaimLostError,
    Journal,
    Ledger,
    NoChildren,
    NoQuestions,
    NoResponseCache,
    Proceed,
    Questions,
    ResponseCache,
    WaitRequestedError,
)
from piecework.domain.question import Ask, QuestionState
from piecework.domain.refs import ChunkRef
from piecework.domain.result_types import result_schema, result_type
from piecework.domain.unstable_key import UnstableKey
from piecework.errors import (
    AnswerTimeoutError,
    PermanentError,
    StoreError,
    TransientError,
)
from piecework.errors.classify import classify, mark
from piecework.resilience import batching
from piecework.resilience.lanes import BATCH, NO_ROOM_CODE
from piecework.resilience.retry import Answered, Failed

R = TypeVar("R")

#: Arguments and answers that are kept, to redact them from error messages.
RECENT_IO = 64
#: Seconds, at most, that an interrupted stage waits for calls that it has left.
CUT_OFF_S = 2.0
#: Seconds of a sleep that stays in its worker: to settle and claim again takes as long.
SHORT_SLEEP_S = 2.0


@dataclass(slots=True)
class Caller:
    """Makes the calls of one claim.

    Attributes:
        gen: The generation of the chunk. It is part of the keys that providers see, so
            that a redrive does not receive a stored failure. It is not part of our own
            keys, so that a redrive finds what is already paid for.
        recent_io: The arguments and answers of the last calls.
        fallbacks_used: The calls that a fallback has answered, by call key.
        equal_calls: Makes the calls, each of which may answer those of other chunks.
        earlier: What earlier claims did, which newer code may not ask for.
        keys_watch: Notices calls whose stored answers no run asks for again.
        functions: The functions that the current run of a stage has called.
        stop_reason: Why the stage must not go on. A call found the claim lost, the job
            cancelled before its pivot, or our tables unavailable. Or the stage waits.
            That is not an answer of the dependency.
        drains_effects: Whether an effect is completed although its stage is cut off.
            The stage is about to be compensated, and no effect may happen after that.
        goes_direct: Whether no call of the job waits in a cheap lane.
        batched: The calls that batches answer; None: there are no batches here, and
            such calls go direct.
    """

    journal: Journal
    ledger: Ledger
    gen: int
    attempts: Attempts
    equal_calls: EqualCalls
    drains_effects: Callable[[], bool] = lambda: False
    goes_direct: bool = False
    batched: BatchedCalls | None = None
    stop_reason: (
        ClaimLostError | CancelRequestedError | WaitRequestedError | StoreError | None
    ) = None
    questions: Questions = field(default_factory=NoQuestions)
    children: Children = field(default_factory=NoChildren)
    #: The sleeps and the questions by their name, and the maps by what they run, of
    #: the current run of a stage.
    slept: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    mapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    responses: ResponseCache = field(default_factory=NoResponseCache)
    effect_drain: EffectDrain = field(default_factory=EffectDrain)
    earlier: EarlierCalls = field(default_factory=EarlierCalls)
    keys_watch: KeyWatch = field(default_factory=KeyWatch)
    recent_io: deque[Any] = field(default_factory=lambda: deque(maxlen=RECENT_IO))
    fallbacks_used: dict[str, FallbackUsed] = field(default_factory=dict)
    functions: CalledFunctions = field(default_factory=CalledFunctions)
    _pending: dict[str, asyncio.Future[Answered[str] | Failed]] = field(
        default_factory=dict
    )
    #: The task of each call in flight.
    _tasks: dict[str, asyncio.Task[Any] | None] = field(default_factory=dict)
    _starting: int = 0

    async def call(
        self,
        scope: CallScope,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        digest: str = "",
    ) -> Answered[str] | Failed:
        """Return the end of a call; equal calls that are in flight share it.

        If the first of several equal calls is cancelled, another of them is made. An
        exception means that the end is unknown. `digest`: that of the arguments, if it
        is known already.

        Raises:
            UsageError: `pipeline.call.indistinct`, `pipeline.argument.indistinct`: the
                call cannot be told from others, so nothing was sent.
            PermanentError: `idempotency.key.unusable`: the same, of its operation.
        """
        await self._wait_turn()
        if self.stop_reason is not None:
            raise self.stop_reason
        call = self._requested(scope, dependency, function, args, kwargs, digest)
        shared = answered_by_key(call) if dependency.fallback else call.key
        if (equal := await self._end_in_flight(shared)) is not None:
            return equal
        result = self._pending[shared] = asyncio.get_running_loop().create_future()
        self._tasks[shared] = asyncio.current_task()
        recorder = self.attempts.recorder
        end: Answered[str] | Failed | None = None
        if not dependency.fallback:
            recorder.begin(call)
            self.recent_io.append((call.bound.args, call.bound.keywords))
        try:
            if dependency.fallback:
                end = await call_with_fallbacks(
                    call,
                    self._call_again,
                    self.journal,
                    self.ledger,
                    self.fallbacks_used,
                    self.attempts.log,
                )
            else:
                with self.gate.request():
                    if self.earlier.holds_calls:
                        await self._wait_for_earlier(call)
                    if self._is_effect(call):
                        end = await self._effect(call)
                    elif (stored := await self._stored(call)) is not None:
                        end = Answered(stored)
                    else:
                        self.earlier.note_made(call)
                        # Without a lane, no frame more.
                        in_lane = dependency.lane.tier and not self.goes_direct
                        in_lane = in_lane or self._was_batched(call)
                        make = self._in_lane if in_lane else self._made
                        end = await make(call, self.gen)
                        await self._store(call, end)
            self._note_end(end)
            result.set_result(end)
            return end
        except asyncio.CancelledError:
            result.cancel()
            raise
        except BaseException as error:
            self._note_stop(error)
            result.set_exception(error)
            result.exception()  # mark it as seen: no equal call may wait for it
            del result  # it and the error would keep each other and the arguments alive
            raise
        finally:
            recorder.end(call, end)
            del self._pending[shared], self._tasks[shared]
            self.earlier.wake()
            self.progress()

    async def _wait_for_earlier(self, call: Call) -> None:
        """Wait until the stage has asked for what earlier claims did.

        Raises:
            WaitRequestedError: The stage can make no other progress.
        """
        earlier = self.earlier
        if not earlier.blocking(call):
            return
        with self.gate.waiting(), earlier.holding():
            while left := earlier.blocking(call):
                if self.stop_reason is not None:
                    raise self.stop_reason
                # A call that waits for a batch gives the worker up first: its answer
                # may lead to what this one waits for.
                others = self._makes_progress or self._batches_hold
                if not await earlier.changed(None if others else QUIET_S):
                    raise self._stop_for_code(call.scope, would_repeat(call, left))

    @property
    def _makes_progress(self) -> bool:
        """Whether a call of the stage is in flight, or starts."""
        return bool(self._starting) or self.gate.requested > self.earlier.held

    @property
    def _batches_hold(self) -> bool:
        """Whether a call of the stage waits for a batch."""
        return self.batched is not None and self.batched.is_holding

    def require_asked(self, scope: CallScope) -> None:
        """Require that a stage has asked for all effects of earlier claims.

        Raises:
            WaitRequestedError: It has not: the chunk stops at the end of the stage.
        """
        if left := self.earlier.left_in(scope.stage):
            raise self._stop_for_code(scope, was_not_asked(scope.stage, left))

    def _stop_for_code(self, scope: CallScope, message: str) -> WaitRequestedError:
        """Return why the stage must not go on with this worker's code."""
        error = PermanentError(message, code=CHANGED_CODE)
        failure = classify(
            error,
            stage=scope.stage,
            at=iso(self.clock()),
            correlation_id=f"{scope.job}/{scope.chunk}",
        )
        waits = Deferred(failure, 0.0, OTHER_WORKERS)
        self.stop_reason = WaitRequestedError(waits)
        self.earlier.wake()
        return self.stop_reason

    def _is_effect(self, call: Call) -> bool:
        """Return whether the ledger has the call, or will have it.

        A call that is declared pure now may have been an effect in an earlier claim.
        """
        has_effect = call.dependency.effect is not Effect.PURE
        return has_effect or self.ledger.may_have_happened(call.key)

    def _requested(
        self,
        scope: CallScope,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        digest: str,
    ) -> Call:
        """Return a call that a stage requests, if it can be told from others.

        Raises:
            UsageError, PermanentError: As `call` does.
        """
        digest = digest or digest_of(args, kwargs)
        key = call_key(scope, dependency, function, digest)
        self.functions.require_same(key, function)
        result_type(function)  # refuses before anything is sent
        bound = copy_arguments(function, args, kwargs)
        operation = None
        if dependency.by is not None and not dependency.fallback:
            parts = bound.args, bound.keywords
            operation = operation_ref(scope.tenant, dependency, function, *parts)
        self.earlier.note_asked(key)
        self.keys_watch.note_asked(key)
        return Call(key, scope, dependency, bound, digest, operation, self.counts.made)

    async def _call_again(
        self, call: Call, dependency: Dependency, function: Callable[..., Any]
    ) -> Answered[str] | Failed:
        """Make the same call of another member of a chain of fallbacks."""
        args, kwargs = call.bound.args, call.bound.keywords
        return await self.call(
            call.scope, dependency, function, args, kwargs, digest=call.digest
        )

    def clock(self) -> float:
        """Return the time in seconds since 1970."""
        return self.attempts.clock()

    async def sleep_until(self, scope: CallScope, until: float, name: str) -> None:
        """Return if the moment has come, else give up the worker until then.

        The first run of the stage decides the moment; a later run reads it. Sleeps are
        told apart by their name and by their order in the stage.

        Raises:
            WaitRequestedError: The chunk gives up its worker.
        """
        if self.stop_reason is not None:
            raise self.stop_reason
        self.slept[name] += 1
        number = self.slept[name] if name else 1
        which = (name or self.slept.total(), *([number] if number > 1 else []))
        place = (scope.tenant, scope.job, scope.chunk, scope.stage)
        key = keys.sha256_of("sleep", *place, *which)
        stored = self.journal.recall(key)
        if stored is None:
            await self.journal.record(key, repr(until))
        else:
            until = float(stored)
        left = until - self.attempts.clock()
        if left > SHORT_SLEEP_S:
            self.stop_reason = WaitRequestedError(Sleeping(until))
            raise self.stop_reason
        if left > 0:
            await self.attempts.sleep(left)

    async def wait_for(self, scope: CallScope, ask: Ask) -> str:
        """Return the answer of a question as JSON, or give up the worker for it.

        The first run of the stage decides the moments. Questions of one name are told
        apart by their order in the stage. What was decided in an earlier generation,
        and its model does not accept, is asked again.

        Raises:
            WaitRequestedError: The chunk gives up its worker.
            AnswerTimeoutError: `runtime.wait.timed_out`.
        """
        if self.stop_reason is not None:
            raise self.stop_reason
        self.asked[ask.name] += 1
        number = self.asked[ask.name]
        name = ask.name if number == 1 else f"{ask.name}#{number}"
        accepted = partial(accepts, ask.model)
        row = self.questions.recall(scope.stage, name)
        if row is None or not row.is_kept_for(self.gen, accepted):
            question = ask.at(scope.stage, name, self.clock())
            self.stop_reason = WaitRequestedError(Asking(question))
            raise self.stop_reason
        if row.state is QuestionState.OPEN:
            if not row.is_over(self.clock()):
                self.stop_reason = WaitRequestedError(Asking(row.again))
                raise self.stop_reason
            row = await self.questions.close(row)
        if row.value is None:
            message = f"Question {name!r} was not answered until {row.until}."
            raise AnswerTimeoutError(message)
        return row.value

    async def map(self, scope: CallScope, rows: MapRows) -> tuple[str, ChildEnd]:
        """Return the id and the end of a child job, or give up the worker for it.

        Equal calls of a stage are told apart by their order.

        Raises:
            WaitRequestedError: The chunk gives up its worker.
            PieceworkError: As `Children.find`.
        """
        if self.stop_reason is not None:
            raise self.stop_reason
        site = (rows.pipeline.name, rows.digest)
        self.mapped[site] += 1
        ref = ChunkRef(scope.tenant, scope.job, scope.chunk)
        job = child_id(ref, scope.stage, *site, self.mapped[site])
        try:
            return job, await self.children.find(job, scope.stage, rows)
        except (WaitRequestedError, StoreError) as reason:
            raise self._stop_with(reason) from None

    def _stop_with(self, reason: WaitRequestedError | StoreError) -> BaseException:
        """Return why the stage must not go on: what another call of it met first."""
        if self.stop_reason is None:
            self.stop_reason = reason
        return self.stop_reason

    async def _end_in_flight(self, shared: str) -> Answered[str] | Failed | None:
        """Return the end of an equal call that is in flight; None without one."""
        while (equal := self._pending.get(shared)) is not None:
            await asyncio.wait([equal])
            if not equal.cancelled():
                return equal.result()
        return None

    def _note_end(self, end: Answered[str] | Failed) -> None:
        """Keep the answer, to redact it, or why the stage must not go on."""
        if isinstance(end, Failed):
            self._note_stop(end.error)
        else:
            self.recent_io.append(end.value)

    def _note_stop(self, error: BaseException) -> None:
        if isinstance(error, ClaimLostError | CancelRequestedError | StoreError):
            self.stop_reason = error

    async def _wait_turn(self) -> None:
        """Wait for earlier calls; `wait_for_calls` counts this one as in flight."""
        self._starting += 1
        try:
            await self.attempts.pacer.wait_turn()
        finally:
            self._starting -= 1

    async def _stored(self, call: Call) -> str | None:
        """Return the answer of a pure call from the journal or the shared cache."""
        if (stored := self._journalled(call)) is not None:
            return stored
        if (value := await cache_get(self.responses, call)) is not None:
            self.counts.cached += 1
            self.attempts.usage.report_reused(call, value, "cached")
            digests = digests_of(call)
            await self.journal.record(call.key, value, site_text(call), digests)
            return value
        return None

    def _journalled(self, call: Call) -> str | None:
        """Return the answer of a call from the journal."""
        stored = self.journal.recall(call.key)
        if stored is not None:
            self._count_replayed(call, stored)
        return stored

    def _count_replayed(self, call: Call, answer: str) -> None:
        """Count an answer that an earlier claim has paid for and counted."""
        self.counts.replayed += 1
        self.attempts.usage.report_reused(call, answer, "replayed")

    async def _store(self, call: Call, end: Answered[str] | Failed) -> None:
        """Store the answer of a pure call in the journal and the shared cache."""
        if isinstance(end, Answered):
            digests = digests_of(call)
            await self.journal.record(call.key, end.value, site_text(call), digests)
            self._note_new(call, digests)
            await cache_put(self.responses, call, end.value)

    def _note_new(self, call: Call, digests: Mapping[str, str] | None = None) -> None:
        """Note an answered call that no earlier claim has stored."""
        site = site_of(call)
        if self.keys_watch.watches(site):
            found = digests_of(call) if digests is None else digests
            self._tell_unstable(self.keys_watch.note_new(site, found))

    def end_stage(self, stage: str) -> None:
        """Judge the keys of the calls of a stage that has returned or failed."""
        self._tell_unstable(self.keys_watch.end_stage(stage))

    def _tell_unstable(self, found: UnstableKey | None) -> None:
        if found is not None:
            telemetry.emit(
                self.attempts.log,
                "call.key_unstable",
                stage=found.stage,
                dependency=found.dependency,
                function=found.function,
                arguments=found.arguments,
            )

    async def _in_lane(self, call: Call, gen: int) -> Answered[str] | Failed:
        """Make a pure call in the lane of its dependency, or direct once it may.

        Without room the chunk waits. The journal keeps since when, so that a later
        claim goes direct on time; a redrive waits anew.
        """
        lane, now = call.dependency.lane, self.clock()
        if lane.tier == BATCH:
            return await self._in_batch(call, gen)
        if (left := await self._left_batch(call, gen)) is not None:
            return left
        if not lane.tier or self.goes_direct:
            return await self._made(call, gen)
        key = f"{call.key}.room.{gen}"
        stored = self.journal.recall(key)
        since = None if stored is None else float(stored)
        taken = lane.at(since, now)
        if since is not None and not taken.tier:
            self._tell_left(call, round(now - since))
        end = await self._made(replace(call, lane=taken), gen)
        if not isinstance(end, Failed) or end.envelope.code != NO_ROOM_CODE:
            return end
        if since is None:
            since = now
            await self.journal.record(key, repr(since))
        wait_s = lane.wait_s(since, self.clock(), end.envelope.retry_after)
        envelope = end.envelope.model_copy(update={"retry_after": wait_s})
        mark(end.error, envelope)
        return replace(end, envelope=envelope)

    async def _in_batch(self, call: Call, gen: int) -> Answered[str] | Failed:
        """Return what a batch has answered, wait for one, or make the call direct.

        A row that failed counts as an attempt of the call; its retries go direct.

        Raises:
            WaitRequestedError: The chunk waits for the batch.
        """
        if self.batched is None or call.dependency.batch is None:
            return await self._made(call, gen)
        step = self.batched.step(call, self._refused_in(call))
        if isinstance(step, batching.Take):
            return await self._take(call, step, gen)
        if isinstance(step, batching.GoDirect):
            self._note_open(call)
            self._tell_left(call, round(step.waited_s))
            return await self._made(call, gen)
        held = Held(call, step)
        if isinstance(step, batching.Ask):
            batch, bound = call.dependency.batch, call.copied()
            body, size = batch.row_of(*bound.args, **bound.keywords)
            if size > batch.most_row_bytes:
                self._tell_left(call, 0)
                return await self._made(call, gen)
            try:
                asked = replace(call, lane=call.dependency.lane)
                reservation = await self.attempts.reserve(asked)
            except (PermanentError, TransientError) as error:
                return self.attempts.own_failure(CallAttempts(call, ""), error)
            held = Held(call, step, body.encode(), size, reservation)
        with self.gate.waiting(), self.earlier.holding(), self.batched.holding(held):
            while self.stop_reason is None:
                others = self._makes_progress
                if not await self.earlier.changed(None if others else batching.QUIET_S):
                    self.stop_reason = WaitRequestedError(self.batched.outcome())
                    self.earlier.wake()
        raise self.stop_reason

    def _was_batched(self, call: Call) -> bool:
        """Return whether an earlier claim has asked for a call in a batch."""
        return self.batched is not None and self.batched.has(call)

    async def _left_batch(self, call: Call, gen: int) -> Answered[str] | Failed | None:
        """Return what a batch has answered, of a call that newer code asks otherwise.

        None: it has not answered, or no batch was asked.
        """
        if self.batched is None or not self._was_batched(call):
            return None
        step = self.batched.step(call, self._refused_in(call))
        if isinstance(step, batching.Take):
            return await self._take(call, step, gen)
        self._note_open(call)
        return None

    def _note_open(self, call: Call) -> None:
        """Note that a call goes direct although no collector has closed its request.

        The provider may charge for that, too, and no worker may ever read its answer.
        """
        if self.batched is not None and self.batched.is_open(call):
            self.attempts.usage.report_cut_off(call)

    async def _take(
        self, call: Call, step: batching.Take, gen: int
    ) -> Answered[str] | Failed:
        """Return what a batch has said; retry an error direct."""
        lane = replace(call.dependency.lane, said=said_of(step))
        end = await self.attempts.take(replace(call, lane=lane))
        if isinstance(end, Answered):
            return end
        await self.journal.record(f"{call.key}.refused", str(step.fence))
        return await self._made(call, gen) if end.envelope.retryable else end

    def _refused_in(self, call: Call) -> int:
        """Return the claim whose answer in a batch the stage has failed by; 0: none."""
        return int(self.journal.recall(f"{call.key}.refused") or 0)

    def _tell_left(self, call: Call, waited_s: int) -> None:
        log, name = self.attempts.log, call.dependency.name
        telemetry.emit(log, "call.lane_left", dependency=name, waited_s=waited_s)

    def _made(
        self, call: Call, gen: int, ledger: Ledger | None = None
    ) -> Awaitable[Answered[str] | Failed]:
        """Make the attempts of a call, or share it with other chunks."""
        if call.operation is None:
            return self.attempts.make(call, call.sent_key(gen), ledger)
        return self.equal_calls.make(call, call.operation, gen, ledger)

    async def _effect(self, call: Call) -> Answered[str] | Failed:
        """Make a call with an effect, unless the ledger knows its answer."""
        dependency = call.dependency
        if not self.ledger.may_have_happened(call.key):
            # Another chunk answered it, or it was declared pure when it was answered.
            if (stored := self._journalled(call)) is not None:
                return Answered(stored)
            execution = self._execute(call, self.gen, doubtful=False)
            return await self.effect_drain.run_to_completion(
                execution, lambda: self._must_land(call)
            )
        begun = self.ledger.begin(
            call.key, call.scope.stage, dependency.effect, dependency.timeout_s
        )
        match await begun:
            case AlreadyDone(answer, is_counted):
                return await self._replayed(call, answer, is_counted=is_counted)
            case Proceed(gen, seconds, is_counted):
                if dependency.may_have_forgotten(seconds):
                    raise await self._in_doubt(call)
                found = await self.attempts.look_up(call, call.sent_key(gen))
                if isinstance(found, Failed):
                    return found
                if found.value is not None:
                    answer = call.encode(found.value)
                    if is_counted:
                        self._count_replayed(call, answer)
                    else:
                        await self.attempts.count_found(call, found.value)
                    await self.ledger.finish(call.key, answer)
                    return Answered(answer)
                execution = self._execute(call, gen, doubtful=True)
                return await self.run_to_completion(execution)
            case _:
                raise await self._in_doubt(call)

    async def _in_doubt(self, call: Call) -> PermanentError:
        """Record that an effect is in doubt, and return the error.

        The type of the answer is stored, too: it checks what an operator resolves.
        """
        schema = result_schema(call.bound.func)
        await self.ledger.mark_unknown(call.key, schema)
        return effect_unknown_error(call.dependency, call.bound.func)

    async def _replayed(
        self, call: Call, answer: str, *, is_counted: bool
    ) -> Answered[str] | Failed:
        """Return the answer of an effect from the ledger; complete its number first."""
        operation = call.operation
        if operation is not None and operation.number:
            failed = await self.equal_calls.complete(call, operation, self.gen, answer)
            if failed is not None:
                return failed
        if is_counted:
            self._count_replayed(call, answer)
        else:
            await self.attempts.count_found(call, call.decode(answer))
            await self.ledger.mark_counted(call.key)
        return Answered(answer)

    async def _execute(
        self, call: Call, gen: int, *, doubtful: bool
    ) -> Answered[str] | Failed:
        """Make the attempts of an effect, and record their end in the ledger.

        The effect was refused only if every attempt was refused or not sent: a timeout
        may hide an effect.
        The answer of another chunk belongs in the journal: this chunk has no effect.
        """
        dependency, ledger = call.dependency, self.ledger
        end = await self._made(call, gen, None if doubtful else ledger)
        if isinstance(end, AnsweredBefore) and not ledger.may_have_happened(call.key):
            await self.journal.record(call.key, end.value)
        elif isinstance(end, Answered):
            await ledger.finish(call.key, end.value)
            self._note_new(call)
        elif not ledger.may_have_happened(call.key):
            pass  # it got no start, so it has no intent
        elif not doubtful and end.is_not_executed:
            await ledger.mark_refused(call.key, sent=not end.is_not_sent)
        elif dependency.effect is Effect.NON_IDEMPOTENT:
            raise await self._in_doubt(call) from end.error
        return end

    def _must_land(self, call: Call) -> bool:
        """Return whether an effect is completed: one without an intent is cut off."""
        return self.drains_effects() and self.ledger.may_have_happened(call.key)

    async def run_to_completion(self, work: Coroutine[Any, Any, R]) -> R:
        """Run work that is not cut off if its stage is about to be compensated."""
        return await self.effect_drain.run_to_completion(work, self.drains_effects)

    async def wait_for_calls(self) -> None:
        """Wait until no call is in flight.

        A stage that failed may have left some. Their answers are paid for, and no
        effect may happen after its compensation.
        """
        while (in_flight := self._tasks_in_flight()) or self._starting:
            # A call that is starting gets its turn within a few rounds of the loop.
            await (asyncio.wait(in_flight) if in_flight else asyncio.sleep(0))

    async def cut_off_calls(self) -> None:
        """Interrupt the calls that an interrupted stage left in tasks of its own."""
        left = {task for task in self._tasks.values() if task is not None}
        left.discard(asyncio.current_task())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CUT_OFF_S)

    def _tasks_in_flight(self) -> list[asyncio.Future[Any]]:
        return [*self._pending.values(), *self.effect_drain.tasks]

    def start_compensating(self) -> None:
        """Give the compensation its own retry time, whatever the stages have used.

        A compensation that never succeeds must come to an end. So the retry budget is
        not enforced after `MAX_BUDGET_DEFERRALS` deferrals for it.
        """
        # It stopped the stage; it must not stop the compensation.
        if not isinstance(self.stop_reason, StoreError):
            self.stop_reason = None
        self.counts.forward = False
        self.earlier.start_compensating()
        self.gate.keep_open()
        self.attempts.retry_time = replace(self.attempts.retry_time, spent=0.0)
        self.attempts.enforce_retry_budget = (
            self.counts.budget_deferrals < MAX_BUDGET_DEFERRALS
        )

    def note_read(self, text: str) -> None:
        """Keep what a stage reads of its child, to redact it; report progress."""
        self.recent_io.append(text)
        self.progress()

    def progress(self) -> None:
        """Report that the stage makes progress."""
        self.attempts.progress()

    @property
    def counts(self) -> CallCounts:
        """The counts of the calls so far."""
        return self.attempts.counts

    @property
    def gate(self) -> PauseGate:
        """The gate that keeps calls from starting while the job is paused."""
        return self.attempts.admission.gate

    @property
    def in_flight(self) -> InFlight:
        """The requests that a provider may still execute."""
        return self.attempts.in_flight


def site_of(call: Call) -> Site:
    """Return which function of which stage a call calls."""
    function = function_text(call.bound.func)
    return Site(call.scope.stage, call.dependency.name, function)


def digests_of(call: Call) -> dict[str, str]:
    """Return the digests of the arguments of a call, by their names."""
    bound = call.bound
    chunk = call.scope.chunk_name
    return argument_digests(chunk, bound.func, bound.args, bound.keywords)


# ── share the answers of pure calls among the jobs of a tenant ────────────────
#
# The key contains the pipeline and the dependency's version, not job, chunk or stage.
# Two pipelines may mean different things by the same names. If the cache has no answer
# that the function's annotation accepts, the call is made and paid for.


async def cache_get(cache: ResponseCache, call: Call) -> str | None:
    """Return the answer of an equal call of the tenant; None: not cached."""
    if call.dependency.cache_ttl_s is None:
        return None
    value = await cache.recall(response_key(call))
    if value is None:
        return None
    try:
        values.decode(call.bound.func, value)
    except PermanentError:
        return None
    return value


async def cache_put(cache: ResponseCache, call: Call, value: str) -> None:
    """Store an answer for other jobs of the tenant."""
    if call.dependency.cache_ttl_s is not None:
        await cache.keep(response_key(call), value, call.dependency.cache_ttl_s)


def response_key(call: Call) -> str:
    """Return the key of a shared answer: equal for equal calls of a pipeline's jobs."""
    scope, dependency = call.scope, call.dependency
    function = function_text(call.bound.func)
    shared_by = (scope.tenant, scope.pipeline, dependency.name, dependency.version)
    return keys.sha256_of("response", *shared_by, function, call.digest)
