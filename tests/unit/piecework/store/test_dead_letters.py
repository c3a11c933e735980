"""A dead letter fits into an item, however often its chunk has died."""

from __future__ import annotations

import json
from typing import Any

import pytest

from piecework.cost.units import item_size
from piecework.domain import keys
from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.domain.rows import ErrorRow
from piecework.settings import InvalidSettingsError, Settings
from piecework.store.checkpoints import Work
from piecework.store.dead_letters import DeadLetters
from piecework.store.serialization import to_item
from tests.unit.piecework.fakes import envelope
from tests.unit.piecework.store.tables import NOW, claim, paper

#: Bytes that DynamoDB takes.
LARGEST = 400 * 1024
#: As long as an envelope's texts may be, in the characters that JSON makes longest.
LONG: Any = {"message": "\U0001f4a5" * 512, "cause": "\U0001f4a5" * 256}
#: The errors that a dead letter has at most.
MAX_ERRORS = 32


def test_the_errors_of_a_chunk_are_in_the_order_of_its_claims() -> None:
    claims = [(1, 9_999), (1, 10_000), (2, 10_001)]
    parts = [keys.work_part(3, keys.error_sk(3, *claim)) for claim in claims]
    errors = Work({part: {"part": part} for part in sorted(parts)}, None).errors
    assert [row.item["part"] for row in errors] == parts


@pytest.mark.parametrize(
    ("own", "settings", "expected"),
    [
        (("", ""), {}, (Settings().owner, "docs/runbooks/dead-letters.md")),
        (("", ""), {"owner": "shop", "runbook": "wiki"}, ("shop", "wiki")),
        (("us", ""), {"owner": "shop", "runbook": "wiki"}, ("us", "wiki")),
        (("us", "ours"), {"owner": "shop", "runbook": "wiki"}, ("us", "ours")),
    ],
)
async def test_each_dead_letter_names_an_owner_and_a_runbook(
    own: tuple[str, str], settings: dict[str, str], expected: tuple[str, str]
) -> None:
    known: dict[str, Any] = {**settings}
    letters = DeadLetters(paper(), Settings(**known), lambda: NOW)
    dead = DeadLettered(envelope(**LONG, attempt=1), CompensationResult.NOT_NEEDED)
    owner, runbook = own
    row = letters.row(
        claim(gen=1, fence=1), dead, [], pipeline="p", owner=owner, runbook=runbook
    )
    assert (row["owner"], row["runbook"]) == expected
    assert all(expected)


@pytest.mark.parametrize("name", ["owner", "runbook"])
def test_a_deployment_without_a_contact_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettingsError):
        Settings(**{name: ""})  # type: ignore[arg-type]


async def test_a_chunk_with_very_many_errors_can_still_be_dead_lettered() -> None:
    letters = DeadLetters(paper(), Settings(), lambda: NOW)
    errors = [envelope(**LONG, attempt=n).model_dump_json() for n in range(1, 600)]
    row = letters.row(
        claim(gen=200, fence=600),
        DeadLettered(envelope(**LONG, attempt=600), CompensationResult.NOT_NEEDED),
        [ErrorRow({"error": error, "worker": "worker"}) for error in errors],
        pipeline="review",
        owner="",
    )
    assert item_size(to_item(row)) < LARGEST
    kept = [error["attempt"] for error in json.loads(row["error_history"])]
    assert list(range(601 - MAX_ERRORS, 601)) == kept
