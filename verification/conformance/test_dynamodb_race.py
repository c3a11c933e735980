"""Eight claims of one item at once have one winner, on whatever a soak stands on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from verification.conformance.items import expressed, key
from verification.conformance.subject import fresh
from verification.conformance.subjects import clients, make_table

#: A soak's result counts after 1,000 races without a second winner.
RACES = int(os.environ.get("CONFORMANCE_RACES", "25"))
CLAIMERS = 8


@pytest.mark.parametrize("subject", ["ministack", "moto", "endpoint"])
def test_a_race_of_claims_has_one_winner(
    subject: str, endpoint_of: Callable[[str], str]
) -> None:
    won = asyncio.run(race(subject, endpoint_of(subject), RACES))
    assert [1] * RACES == won


async def race(subject: str, endpoint: str, races: int) -> list[int]:
    """Return how many claims of each item were won."""
    table = fresh("race")
    async with clients(subject, endpoint) as (dynamodb, *_):
        await make_table(dynamodb, table)
        won = [
            sum(
                await asyncio.gather(
                    *(claim(dynamodb, table, f"{number}") for _ in range(CLAIMERS))
                )
            )
            for number in range(races)
        ]
        if subject == "endpoint":
            await dynamodb.delete_table(TableName=table)
    return won


async def claim(dynamodb: Any, table: str, sk: str) -> bool:
    try:
        await dynamodb.update_item(
            TableName=table,
            Key=key(sk),
            **expressed("ADD fence :one", "attribute_not_exists(fence)", one=1),
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return False
    return True
