"""A terminal of 80 columns: nothing wraps in the middle of a word."""

from __future__ import annotations

import pytest

from piecework.domain import keys
from piecework.domain.refs import JobRef
from tests.unit.orchestrator.cli.conftest import Run
from tests.unit.orchestrator.cli.deployment import SETTLED, Deployment

JOB = "261124-071530-" + "x" * 50  # the longest id
USUAL = "261124-071530-k7m2p"
CODE = "llm.context.overflow_of_the_model"
WORKER = "ip-10-0-12-34-eu-central-1-compute-internal/5123"
MESSAGE = f"The model refused {'a long prompt ' * 9}after 31 attempts."


@pytest.fixture(autouse=True)
def long_record(here: Deployment) -> None:
    """Store jobs and chunks whose every text is as long as it may well be."""
    for job in (JOB, USUAL):
        ref = JobRef("default", job)
        pause = {"code": "operator", "message": "the budget of the day is used up"}
        here.job(job, "PARTIAL", 3, pipeline="contract_review_of_suppliers")
        here.chunk(job, 0, "SUCCEEDED", stage="summarise_and_translate")
        here.chunk(
            job,
            1,
            "DEAD",
            label="17 Schedule of Charges, Credits and Invoicing Rules",
            stage="summarise_and_translate",
            error_code=CODE,
            calls=12_345,
            started_at=SETTLED,
            claimed_by=WORKER,
        )
        here.chunk(
            job,
            2,
            "WAITING",
            error_code="dependency.breaker.open",
            blocked_on="model:anthropic.large-review-v1:0",
            retry_at="2027-01-15T09:00:00.000Z",
        )
        here.letter(
            job,
            1,
            error_code=CODE,
            error=MESSAGE,
            stage="summarise_and_translate",
            label="17 Schedule of Charges, Credits and Invoicing Rules",
            owner="contract-review-team@example.com",
            raised="ValueError at contract_review/suppliers/review.py:117 in review",
        )
        here.table.add(
            ref.pk,
            keys.event_sk(SETTLED, "paused", "t"),
            at=SETTLED,
            event="paused",
            facts=pause,
        )


@pytest.mark.parametrize(
    "words",
    [
        "jobs list",
        "jobs show JOB",
        "jobs explain JOB",
        "jobs events JOB",
        "jobs timeline JOB",
        "jobs timeline JOB 1",
        "chunks list JOB",
        "chunks show JOB 1",
        "chunks show JOB 2",
        "chunks show JOB 1 -v",
        "dlq list",
        "dlq list --job JOB --all",
        "dlq show JOB 1",
        "dlq stats",
        "effects list JOB",
        "results JOB -o table",
        "explain-code",
        "config show",
        "doctor",
    ],
)
@pytest.mark.parametrize("job", [JOB, USUAL], ids=["longest", "usual"])
def test_80_columns_break_no_word(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, job: str
) -> None:
    command = words.replace("JOB", job).split()
    whole = run(*command).stdout
    monkeypatch.setenv("COLUMNS", "80")
    narrow = run(*command).stdout

    assert [] == [line for line in narrow.splitlines() if len(line) > 80]
    known = {word for word in whole.split() if len(word) <= 60}
    cut = {word for word in narrow.split() if len(word) <= 60 and "…" not in word}
    assert cut <= known | {piece for word in whole.split() for piece in pieces(word)}


def pieces(word: str) -> set[str]:
    """Return the parts of a word that is longer than any column: a line has room."""
    return (
        {word[i:j] for i in range(len(word)) for j in range(i, len(word) + 1)}
        if (len(word) > 60)
        else set()
    )


def test_a_narrow_list_says_which_columns_it_leaves_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run("jobs", "list")
    assert "too narrow for: " in done.stderr
    assert "-o json" in done.stderr
    assert USUAL in done.stdout
