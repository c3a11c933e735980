"""A refusal by AWS is not the fault of a chunk: the chunk waits and spends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from piecework.aws.objects import Objects
from piecework.domain.states import JobStatus
from tests.scenarios import command_line
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, fixed


@dataclass
class Denied:
    """Refuses to read objects until the trouble is fixed, as S3 does."""

    client: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def get_object(self, **request: Any) -> Any:
        if fixed():
            return await self.client.get_object(**request)
        denial: Any = {
            "Error": {"Code": "AccessDenied", "Message": "Access Denied"},
            "ResponseMetadata": {"HTTPStatusCode": 403},
        }
        raise ClientError(denial, "GetObject")


async def test_a_bucket_that_refuses_for_a_while_spends_no_attempt(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=n) for n in range(4)])
    objects = Objects(Denied(scenario.rt.objects.client), scenario.rt.objects.bucket)

    async def all_waited() -> bool:
        return all(chunk.outages > 1 for chunk in await scenario.chunks())

    async with scenario.worker(objects=objects):
        await scenario.until(all_waited)
        (chunk, *_) = await scenario.chunks()
        facts = (chunk.item["error_code"], chunk.item["blocked_on"], chunk.attempts)
        assert ("aws.access.denied", "AWS", 0) == facts
        shown = (
            await command_line.piecework("jobs", "show", "job-1", "-o", "json")
        ).document
        assert shown["outages"] >= 8
        assert "aws.access.denied" == shown["status_reason"]["code"]
        assert shown["status_reason"]["message"].startswith("waits for AWS until ")

        scenario.fix()
        assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    assert [1] * 4 == [chunk.attempts for chunk in await scenario.chunks()]
