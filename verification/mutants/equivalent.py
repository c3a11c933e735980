"""List the equivalent mutants, each with its reason.

A person has reviewed them. An entry that names no mutant fails the run.
"""

from __future__ import annotations

Key = tuple[str, str, str]

CLAIMS = "piecework/store/claims.py"
KNOWN_GEN = "`gen = :gen` is false, too, where there is no item"

REDRIVE = "orchestrator/piecework_orchestrator/redrive.py"
RESUME = "orchestrator/piecework_orchestrator/resume.py"
BEGIN = "`verdict = await self.store.begin(request)`"
REOPENABLE = "job = await require_reopenable(rt, request.ref)"
FOUND = (
    "found = [await to_reopen_request(rt, request, letter)"
    " for letter in request.letters]"
)
EDITED = (
    "edited = await edit_payload(rt, letter, request.edit) if request.edit else None"
)
STILL_OPEN = (
    "chunk, still_open = await asyncio.gather("
    "read_chunk(rt.table, ref), is_open(rt, request.ref, letter))"
)
RATE = "rate = DispatchRate(request.rate, rt.clock()) if request.rate else None"
REMOVED = (
    "await remove_from_tallies(rt, job, [one.chunk.ref.chunk for one in to_reopen])"
)

EQUIVALENT: dict[Key, str] = {
    (CLAIMS, "CLAIM", "without `attribute_exists(pk)`"): KNOWN_GEN,
    (CLAIMS, "RECOVER", "without `attribute_exists(pk)`"): KNOWN_GEN,
    (
        "piecework/store/checkpoints.py",
        "_may_go_on",
        "without `attribute_exists(direction)`",
    ): "a chunk on its way back completes no stage: it only undoes",
    (
        "piecework/store/effects.py",
        "_record_end",
        "without `:unknown of #state IN (:intent, :unknown)`",
    ): "only a doubt comes to it by that, and what is UNKNOWN is so already",
    (
        "workers/piecework_worker/lease.py",
        "__aexit__",
        "`scope is None` as False",
    ): "who leaves has entered; the types alone ask for it",
    (
        "piecework/idempotency/decorator.py",
        "_begin",
        "`waits = self.rules.waits and now() < wait_until` before " + BEGIN,
    ): "a slow store costs one poll more",
    (REDRIVE, "redrive", f"`{FOUND}` before `{REOPENABLE}`"): "only objects that are"
    " named by their hashes are stored before the refusal",
    (REDRIVE, "to_reopen_request", f"`{EDITED}` before `{STILL_OPEN}`"): (
        "both only read"
    ),
    (RESUME, "reopen", f"`{RATE}` before `{REMOVED}`"): "the slots begin earlier",
    (
        RESUME,
        "reopen",
        (
            "`await rt.jobs.record(request.ref, event, recorded)` before"
            " `await dispatch(rt, job, reopened, rate)`"
        ),
    ): "the chunks are reopened already; a reconciler sends what is missing",
}
