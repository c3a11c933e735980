"""The causes of some chunks: what they wait for, and who should run them.

Each cause is one function; `causes.py` lists them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from piecework.domain import keys
from piecework.domain.batch import BatchPhase
from piecework.domain.moments import MICROS, iso, moment
from piecework.domain.outcome import CHANGED_CODE, NO_STAGE_CODE
from piecework.domain.rows import LATE_S
from piecework.explain.batches import BatchFacts
from piecework.explain.changed import OLD_MAY_RUN
from piecework.explain.findings import START, Finding
from piecework.explain.view import CLAIM_S, NAMED, View, by_blocker, chunks_for, first
from piecework.explain.waiting import WaitReason
from piecework.resilience.breaker import BreakerPhase
from piecework.resilience.limits import AHEAD

#: The codes of chunks that wait for another version of their pipeline.
PIPELINE_CODES = {CHANGED_CODE, NO_STAGE_CODE}

# ── versions and dependencies ─────────────────────────────────────────────────


def newer_needed(view: View) -> Iterator[Finding]:
    """Find chunks that only a newer version of Piecework can run or read."""
    waiting = chunks_for(view, WaitReason.OTHER_VERSION)
    newer = [chunk for chunk in waiting if chunk.error_code not in PIPELINE_CODES]
    chunks = [*newer, *range(view.at.open.newer)]
    if chunks:
        message = "A newer version of Piecework wrote these chunks."
        yield view.finding("version.newer_needed", message, chunks)


def code_changed(view: View) -> Iterator[Finding]:
    """Find chunks that wait for another version of their pipeline's code.

    One that is due again has not found it yet.
    """
    waiting = [
        chunk
        for reason in (WaitReason.OTHER_VERSION, WaitReason.WORKER)
        for chunk in chunks_for(view, reason)
        if chunk.error_code in PIPELINE_CODES
    ]
    if not waiting:
        return
    found = Counter(chunk.code_version for chunk in waiting if chunk.code_version)
    last = f" Workers of {', '.join(sorted(found))} left them." if found else ""
    lacks = {chunk.stage for chunk in waiting if chunk.error_code == NO_STAGE_CODE}
    only_lack = all(chunk.error_code == NO_STAGE_CODE for chunk in waiting)
    why = "the pipeline has changed, and its new version is not safe for them"
    if only_lack:
        why = f"the workers' pipeline has no stage {', '.join(sorted(lacks))}"
    if told := (view.at.stopped or {}).get("now", ""):
        why = told[:1].lower() + told[1:].rstrip(".")
    needed = view.finding(
        "version.safe_needed",
        f"Chunks wait for another version of the code: {why}.{last} {OLD_MAY_RUN}",
        waiting,
        until=first(chunk.retry_at for chunk in waiting),
    )
    if only_lack:  # an acceptance gives no worker the stage
        ref = waiting[0].ref
        needed = replace(needed, command=f"piecework chunks show {ref.job} {ref.name}")
    yield needed


def dependencies_paused(view: View) -> Iterator[Finding]:
    """Find dependencies that an operator has paused."""
    for name, chunks in by_blocker(view, WaitReason.PAUSED).items():
        why = view.pause_of(name)
        if why is not None:
            message = f"Dependency {name} is paused" + (f": {why}." if why else ".")
            yield view.finding("dependency.paused", message, chunks, dependency=name)


def breakers_open(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an open circuit breaker, by dependency."""
    fleet = view.at.fleet
    for name, chunks in by_blocker(view, WaitReason.BREAKER).items():
        state = fleet.breakers.get(name) if fleet else None
        is_open = state is not None and state.phase is not BreakerPhase.CLOSED
        code = state.failure_code if state and is_open else chunks[0].error_code
        next_try = min(moment(chunk.retry_at) for chunk in chunks)
        until = max(next_try, state.open_until if state and is_open else 0.0)
        opened = fleet.opened_at.get(name, "") if fleet and is_open else ""
        verb = "is" if is_open or fleet is None else "was"
        message = f"The circuit breaker of dependency {name} {verb} open"
        message += f" after {code}." if is_open else "."
        yield view.finding(
            "breaker.open",
            message,
            chunks,
            since=opened or first(chunk.breaker_since for chunk in chunks),
            until=iso(until),
            error_code=code,
        )


def limits_reached(view: View) -> Iterator[Finding]:
    """Find chunks that wait for quota, or after a rate limit, by dependency."""
    for name, chunks in by_blocker(
        view, WaitReason.QUOTA, WaitReason.RATE_LIMIT
    ).items():
        until = first(chunk.retry_at for chunk in chunks)
        shown = name or slowed_by_refusals(view)
        what = f"Dependency {shown}" if shown else "A dependency"
        refused = f"{what} refused calls with {chunks[0].error_code}."
        message = f"{what} allows no more calls now." if name else refused
        found = view.finding(
            "limit.reached", message, chunks, until=until, dependency=shown
        )
        yield found if shown else replace(found, command="piecework limits list")


def lanes_full(view: View) -> Iterator[Finding]:
    """Find chunks that wait for room in the cheap lane of a model, by model."""
    for name, chunks in by_blocker(view, WaitReason.ROOM).items():
        message = f"The cheap lane of {name} has no room now."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("lane.full", message, chunks, until=until, dependency=name)


def slowed_by_refusals(view: View) -> str:
    """Return the only dependency whose refusals slow the fleet; empty: not the only."""
    quotas, now = view.at.fleet.quotas if view.at.fleet else {}, view.at.now * MICROS
    slowed = [name for name, q in quotas.items() if q.pace.is_active(round(now))]
    return slowed[0] if len(slowed) == 1 else ""


def limits_used(view: View) -> Iterator[Finding]:
    """Find limits without a free start, of dependencies that the workers call."""
    fleet, now = view.at.fleet, round(view.at.now * MICROS)
    for name, quota in fleet.quotas.items() if fleet and view.running else ():
        next_start = quota.next_start(now)
        called = any(name in worker.dependencies for worker in view.serving)
        turns = [share for share in quota.turns.values() if share.until > now]
        wanted = sum(share.calls + share.wants for share in turns)
        a_second = quota.limits.requests_per_second
        if called and a_second is not None and wanted > 2 * a_second:
            next_start = max(next_start, now + wanted * MICROS // a_second)
        if called and next_start - now > AHEAD / 2:
            message = f"The limits of dependency {name} are fully used."
            until = iso(next_start / MICROS)
            yield view.finding("limit.used", message, view.running, until=until)


def equal_calls(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an equal call of another chunk, by dependency."""
    for name, chunks in by_blocker(view, WaitReason.EQUAL_CALL).items():
        message = f"Equal calls to dependency {name}, or calls with earlier numbers,"
        message += " are in progress or due for other chunks."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("call.in_progress", message, chunks, until=until)


# ── moments, people and AWS ───────────────────────────────────────────────────


def retries_waiting(view: View) -> Iterator[Finding]:
    """Find chunks that wait for their next attempt."""
    chunks = chunks_for(view, WaitReason.RETRY)
    # A chunk finds the end of a pause at its next attempt.
    paused = chunks_for(view, WaitReason.PAUSED)
    chunks += [each for each in paused if view.pause_of(each.blocked_on) is None]
    if chunks:
        codes = sorted({chunk.error_code for chunk in chunks} - {""})
        after = f" after {codes[0]}" if codes else ""
        more = f" and {len(codes) - 1} other codes" if len(codes) > 1 else ""
        names = sorted({chunk.blocked_on for chunk in chunks} - {""})
        calls = f" to call {', '.join(names[:NAMED])}" if names else ""
        message = f"Chunks wait for their next attempt{calls}{after}{more}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("retry.waiting", message, chunks, until=until)


def retries_running(view: View) -> Iterator[Finding]:
    """Find chunks that run again at the stage at which their last attempt failed.

    The record of a chunk has no failed call of the attempt that runs.
    """
    failed = [(chunk, chunk.failures) for chunk in view.running]
    # A checkpoint starts the next stage later than the claim.
    again = [
        (c, found) for c, found in failed if found and c.started_at == c.claimed_at
    ]
    if again:
        last = Counter((c.stage, found[-1].get("code", "")) for c, found in again)
        [((stage, code), _)] = last.most_common(1)
        times = max(len(found) for _, found in again)
        tries = "1 failed attempt" if times == 1 else f"up to {times} failed attempts"
        message = f"Chunks run stage {stage} again after {tries}, the last with {code}."
        since = first(found[0].get("to", "") for _, found in again)
        yield view.finding(
            "retry.running", message, again, since=since, error_code=code
        )


def timers_waiting(view: View) -> Iterator[Finding]:
    """Find chunks whose stage sleeps."""
    chunks = chunks_for(view, WaitReason.TIMER)
    if chunks:
        message = "Stages of the pipeline sleep until a moment of their own."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("timer.waiting", message, chunks, until=until)


def batches_waiting(view: View) -> Iterator[Finding]:
    """Find chunks whose calls wait for batches, by batch."""
    left = {chunk.ref.chunk: chunk for chunk in chunks_for(view, WaitReason.BATCH)}
    exact, job = view.at.open.exact, view.at.job.ref.job
    if not left:
        return
    for batch in view.at.batches:
        members = batch.chunks_of(job)
        waiting = left.keys() & members.keys()
        # Of a large job only some chunks were read; the batch names all of its own.
        number = len(waiting) if exact else len(members)
        if number:
            message = f"Chunks wait for {batch_words(batch, view.at.now)}."
            is_late = batch.expected_at < iso(view.at.now)  # also if it is unknown
            until = batch.until if is_late else batch.expected_at
            found = view.finding("batch.waiting", message, number, until=until)
            yield replace(found, command=batch_command(batch) or found.command)
        left = {n: chunk for n, chunk in left.items() if n not in waiting}
    if left and (exact or not view.at.batches):
        message = "Batches of providers answer calls of these chunks, for less."
        until = first(chunk.retry_at for chunk in left.values())
        yield view.finding("batch.waiting", message, [*left], until=until)


def batch_words(batch: BatchFacts, now: float) -> str:
    """Return a batch, or what is gathered, as it continues "wait for"."""
    provider, row = batch.collector.provider, batch.row
    model = (row or batch.collector).model
    direct = f"direct from {clock_text(batch.until, now)} UTC"
    stuck = f". {batch.why[:-1]}" if batch.is_stranded or batch.collector.error else ""
    if row is None:
        when = clock_text(batch.next_at, now) if batch.next_at else "the next look"
        made = "" if stuck else f", made at {when}"
        return f"the next batch of {model} at {provider}{made}, {direct}{stuck}"
    if row.stored_phase == BatchPhase.PLANNED:
        what = f"a batch of {model} at {provider} whose creation is in doubt"
        return f"{what}, {direct}{stuck}"
    failed = f", {row.failed} failed" if row.failed else ""
    answered = f"{row.answered} of {row.rows} answered{failed}"
    usual = ""
    if batch.expected_at:
        late = "late: expected" if batch.expected_at < iso(now) else "expected"
        usual = f", {late} {clock_text(batch.expected_at, now)}"
    return f"{batch.name} of {provider}, {answered}{usual}, {direct}{stuck}"


def batch_command(batch: BatchFacts) -> str:
    """Return the command that helps with a batch; empty: that of the finding."""
    if batch.is_stranded:
        return START
    return f"piecework batches show {batch.name}" if batch.name else ""


def clock_text(at: str, now: float) -> str:
    """Return a moment as hours and minutes, with its day unless that is today."""
    day, time = at[:10], at[11:16]
    return time if day == iso(now)[:10] else f"{day} {time}"


def people_asked(view: View) -> Iterator[Finding]:
    """Find chunks whose stage waits for the answer of a person."""
    chunks = chunks_for(view, WaitReason.ANSWER)
    if chunks:
        names = sorted({chunk.question for chunk in chunks})
        more = f" and {len(names) - 1} other questions" if len(names) > 1 else ""
        message = f"Stages wait for the answer of a person: {names[0]}{more}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("answer.waiting", message, chunks, until=until)


def children_waiting(view: View) -> Iterator[Finding]:
    """Find chunks whose stage waits for a child job."""
    chunks = chunks_for(view, WaitReason.CHILD)
    if chunks:
        jobs = sorted({chunk.child for chunk in chunks})
        known = {child.job: child.words for child in view.at.children}
        more = f" and {len(jobs) - 1} others" if len(jobs) > 1 else ""
        words = known.get(jobs[0], f"child job {jobs[0]}")
        message = f"Stages wait for {words}{more}."
        yield view.finding("child.waiting", message, chunks, child=jobs[0])


def aws_unavailable(view: View) -> Iterator[Finding]:
    """Find chunks that an outage of AWS deferred."""
    chunks = chunks_for(view, WaitReason.AWS)
    if chunks:
        message = f"AWS refused the workers of these chunks: {chunks[0].error_code}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("aws.unavailable", message, chunks, until=until)


def resources_lacking(view: View) -> Iterator[Finding]:
    """Find chunks whose workers lacked what a process needs."""
    chunks = chunks_for(view, WaitReason.RESOURCES)
    if chunks:
        message = (
            "The workers of these chunks ran out of memory, disk space, file handles, "
            f"threads or processes: {chunks[0].error_code}."
        )
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("worker.exhausted", message, chunks, until=until)


def effects_in_flight(view: View) -> Iterator[Finding]:
    """Find chunks that wait until a request of a lost worker is certainly over."""
    running = {chunk.ref for chunk in view.running}
    found = [each for each in view.at.in_flight if each.chunk.ref in running]
    if found:
        chunks = {each.chunk.ref for each in found}
        names = sorted({each.effect.dependency for each in found} - {""})
        what = f" of {', '.join(names[:NAMED])}" if names else ""
        message = (
            f"A call{what} may still be executed for a lost worker; the chunks wait "
            "until it certainly is not."
        )
        until = max(each.until for each in found)
        yield view.finding("effects.in_flight", message, list(chunks), until=until)


# ── the order of a key ────────────────────────────────────────────────────────


def keys_stopped(view: View) -> Iterator[Finding]:
    """Find chunks behind the dead letter of an earlier chunk of their order key."""
    chunks = chunks_for(view, WaitReason.ORDER_STOPPED)
    if chunks:
        number = len({chunk.order_key for chunk in chunks})
        what = "An order key is" if number == 1 else f"{number} order keys are"
        message = f"{what} stopped by a dead letter; its later chunks wait."
        since = view.at.letters.since
        yield view.finding("order.stopped", message, chunks, since=since)


def keys_in_order(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an earlier chunk of their order key."""
    chunks = chunks_for(view, WaitReason.ORDER)
    if chunks:
        message = "Chunks wait for an earlier chunk of their order key."
        yield view.finding("order.waiting", message, chunks)


# ── workers ───────────────────────────────────────────────────────────────────


def leases_expiring(view: View) -> Iterator[Finding]:
    """Find chunks of workers that died, froze or were cut off."""
    chunks = view.abandoned
    if chunks:
        owners = sorted({chunk.claimed_by for chunk in chunks})
        more = f" and {len(owners) - NAMED} more" if len(owners) > NAMED else ""
        who = ", ".join(owners[:NAMED]) + more
        message = f"Worker {who} no longer renews its leases."
        if len(owners) > 1:
            message = f"Workers {who} no longer renew their leases."
        until = max(chunk.claim_expires_at for chunk in chunks)  # as text they sort
        yield view.finding("lease.expiring", message, chunks, until=until)


def chunks_unclaimed(view: View) -> Iterator[Finding]:
    """Find due chunks that a worker with free slots has not received.

    A worker that reported since then has had the time. On a shared queue another worker
    may receive the messages, and an idle one reports rarely.
    """
    overdue = [c for c in view.due if view.at.now - view.due_since(c) > CLAIM_S]
    since = min(map(view.due_since, overdue), default=view.at.now)
    free = [
        worker
        for worker in view.serving
        if not worker.is_full
        and (view.is_queue_shared or moment(worker.reported_at) > since + LATE_S)
    ]
    is_held = view.moves or slots_used(view, view.at.job.ref.tenant)
    if overdue and free and not is_held:
        message = f"Worker {free[0].worker} has free slots, but received no message."
        yield view.finding(
            "chunks.unclaimed",
            message,
            overdue,
            since=iso(since),
            until=first(chunk.redispatch_at for chunk in overdue),
        )


def tenant_capped(view: View) -> Iterator[Finding]:
    """Find due chunks that wait for a slot of their tenant."""
    tenant = view.at.job.ref.tenant
    used = slots_used(view, tenant)
    due = [chunk for chunk in view.due if not chunk.ref.is_join]
    if used and due:  # a join needs no slot
        message = f"The chunks of tenant {tenant} use its cap of {used} at once."
        yield view.finding("tenant.capped", message, due, tenant=tenant)


def slots_used(view: View, tenant: str) -> int:
    """Return the slots of a tenant's cap if workers use them all, otherwise 0."""
    quotas = view.at.fleet.quotas if view.at.fleet else {}
    quota = quotas.get(keys.tenant_limit(tenant))
    cap = quota.limits.concurrent if quota else None
    if quota is None or cap is None:
        return 0
    now = round(view.at.now * MICROS)
    used = sum(share.calls for share in quota.shares.values() if share.until > now)
    return cap if used >= cap else 0
