"""List the equivalent mutants, each with its reason.

A person has reviewed them. An entry that names no mutant fails the run.
"""

from __future__ import annotations

Key = tuple[str, str, str]

CLAIMS = "piecework/store/claims.py"
KNOWN_GEN = "`gen = :gen` is false, too, where there is no item"

EQUIVALENT: dict[Key, str] = {
    (CLAIMS, "CLAIM", "without `attribute_exists(pk)`"): KNOWN_GEN,
    (CLAIMS, "RECOVER", "without `attribute_exists(pk)`"): KNOWN_GEN,
    (
        "piecework/store/checkpoints.py",
        "_may_go_on",
        "without `attribute_exists(direction)`",
    ): "a chunk that compensates completes no stage",
    (
        "piecework/store/effects.py",
        "_record_end",
        "without `:unknown of #state IN (:intent, :unknown)`",
    ): "only a doubt comes to it by that, and what is UNKNOWN is so already",
    (
        "piecework/calls/limiter.py",
        "_wants_write",
        "without the last of `self._without_start()`",
    ): "it asks whether there is any; of several, the first one says so",
    (
        "piecework/jobs/budgeting.py",
        "review_pause",
        (
            "`now = micros(rt.clock())` before"
            " `budget, pause = (await rt.budgets.of_job(job), job.pause)`"
        ),
    ): "an earlier time lets a reservation count for longer; the next pass recounts",
    (
        "piecework/reconciler/dead_letter_queue.py",
        "find",
        "without the last of `enumerate(times)`",
    ): "the last letter is an alarm only if each one is; then the first is found",
    (
        "piecework/reconciler/waits.py",
        "poll",
        (
            "`woken = await self._wake(context, job, index, ends)` before"
            " `told = [await self._step(job, index, row, at) for row in due]`"
        ),
    ): "a chunk names one entry, so the two write different chunks",
    (
        "workers/piecework_worker/work_item.py",
        "is_paused",
        "`job is not None` as True",
    ): "a chunk was claimed, so its job is not deleted; the types alone ask for it",
    (
        "workers/piecework_worker/lease.py",
        "__aexit__",
        "`scope is None` as False",
    ): "who leaves has entered; the types alone ask for it",
    (
        "workers/piecework_worker/settle.py",
        "resume_at",
        "without the last of `names`",
    ): "the last name is the default",
    (
        "piecework/jobs/fan_in.py",
        "verify_against_manifest",
        "`found != listed` as True",
    ): "equal lists have equal sets; the comparison saves building them",
}
