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
    ): "a chunk on its way back completes no stage: it only undoes",
    (
        "piecework/store/effects.py",
        "_record_end",
        "without `:unknown of #state IN (:intent, :unknown)`",
    ): "only a doubt comes to it by that, and what is UNKNOWN is so already",
    (
        "piecework/calls/fleet_limits.py",
        "_wants_write",
        "without the last of `self._without_start()`",
    ): "it asks whether there is any; of several, the first one says so",
    (
        "workers/piecework_worker/executor.py",
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
}
