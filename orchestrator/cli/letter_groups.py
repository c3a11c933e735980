"""Group dead letters by cause: count, first and last death, owner, next command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from orchestrator.cli.letters import Letter, chunk_name
from orchestrator.cli.output import Column, Document
from orchestrator.cli.times import format_ago


def group_by_cause(letters: Sequence[Letter]) -> list[Document]:
    """Return one document per fingerprint, the most frequent first."""
    found: dict[str, list[Letter]] = defaultdict(list)
    for letter in letters:
        found[letter["fingerprint"]].append(letter)
    documents = [group_document(members) for members in found.values()]
    return sorted(documents, key=lambda one: (-one["count"], one["fingerprint"]))


def group_document(letters: Sequence[Letter]) -> Document:
    """Return the document of one cause; its texts are those of the newest letter."""
    ordered = sorted(letters, key=lambda letter: str(letter["dead_lettered_at"]))
    first, last = ordered[0], ordered[-1]
    code, mark = last["error_code"], last["fingerprint"]
    return {
        "fingerprint": mark,
        "count": len(letters),
        "error_code": code,
        "error_class": last.get("error_class"),
        "stage": last.get("stage"),
        "jobs": sorted({letter["job"] for letter in letters}),
        "first_died_at": first["dead_lettered_at"],
        "last_died_at": last["dead_lettered_at"],
        "pipelines": sorted({str(letter.get("pipeline", "")) for letter in letters}),
        "owner": last.get("owner"),
        "runbook": last.get("runbook"),
        "sample": {
            "job": last["job"],
            "chunk": chunk_name(last),
            "error": last.get("error"),
        },
        "next": f"piecework dlq show {last['job']} {chunk_name(last)}, then "
        f"piecework dlq redrive --fingerprint {mark} --canary 1 --reason 'the fix'",
    }


def group_columns(now: float) -> list[Column]:
    """Return the columns of `dlq stats`."""
    return [
        Column("FINGERPRINT", "fingerprint"),
        Column("COUNT", "count", right=True),
        Column("JOBS", lambda group: len(group["jobs"]), right=True),
        Column("CODE", "error_code"),
        Column("STAGE", "stage"),
        Column("FIRST", lambda group: format_ago(group["first_died_at"], now)),
        Column("LAST", lambda group: format_ago(group["last_died_at"], now)),
        Column("OWNER", "owner"),
        Column("SAMPLE", lambda group: group["sample"]["error"], shrinks=True),
    ]
