from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework_orchestrator.cli.examples import EXAMPLES
from piecework_orchestrator.cost.prices import load_prices
from tests.unit.orchestrator.cli.deployment import CREATED, Deployment

Run = Callable[..., Any]

ROOT = Path(__file__).parents[4]
PRICES = """
dated: 2027-01-01
models:
  large-1:
    tokens_in: { usd: 3.00, per: 1000000 }
    tokens_out: { usd: 15.00, per: 1000000 }
"""

BILL = """\
GROUP     ITEM                        COUNT  UNIT         REQUESTS       USD
models    fax                            15  calls               -         -
models    large-1                        73  calls               -         -
models    large-1, in                73,000  tokens              -  0.219000
models    large-1, out                7,300  tokens              -  0.109500
SQS       SendMessageBatch                1  requests            1  0.000000
SQS       ReceiveMessage              2.500  requests        2.500  0.000001
DynamoDB  UpdateItem                    800  write units       700  0.000500
DynamoDB  TransactWriteItems          1,600  write units       300  0.001000
S3        PutObject                       2  requests            2  0.000010
DynamoDB  rows, until deletion     0.000008  GB-months           -  0.000002
DynamoDB  backups, until deletion  0.000008  GB-months           -  0.000002
DynamoDB  deletion                       35  write units         -  0.000022
DynamoDB  deletion, reads            14.393  read units          -  0.000002
S3        objects, until deletion     1.479  GB-months           -  0.034027
workers   vCPU                            1  vCPU-hours          -  0.040480
workers   memory                          2  GB-hours            -  0.008890
workers   addresses                       1  hours               -  0.005000

models            0.328500 USD; paid: 88 calls, 73,000 tokens in, 7,300 out
paid twice        3 calls, 3,000 tokens in, 300 out, 0.013500 USD
possibly paid     at most 3 more calls
dead chunks       25 calls, 20,000 tokens in, 2,000 out, 0.090000 USD
saved             from the journal: 7 calls, 7,000 tokens in, 0 out, 0.021000 USD
AWS               0.089936 USD
by process        orchestrator 0.055010, worker 0.000871
total             0.418436 USD for 4 chunks
per 1,000 chunks  104.609025 USD
retries           3 requests
prices            us-east-1, as of 2027-01-01
stored            for 90 days
units from        AWS rules, measured on an emulator
notes             the counters of 1 writes to AWS were lost
                  claims lost with their worker: 1; a call in flight then is possibly paid
                  fax: no price; `usage` of the dependency reports tokens
"""  # noqa: E501 -- as it is printed


def costly(deployment: Deployment) -> None:
    """Add a job of four chunks with its cost counters."""
    deployment.job("a", "PARTIAL", 4, finished_at=CREATED)
    for number, status in enumerate(["SUCCEEDED", "SUCCEEDED", "DEAD", "CANCELLED"]):
        usage = {"paid": {"large-1": [20, 20_000, 2_000], "fax": [5]}}
        if status == "CANCELLED":
            usage = {"replayed": {"large-1": [7, 7_000]}}
        lost = {"lost_fences": {1}} if number == 1 else {}
        deployment.chunk("a", number, status, call_usage=usage, fence=2, **lost)
    pk = JobRef("default", "a").pk
    claim = (1, 1)  # of chunk 1: its worker died, and wrote a page too late
    for page, (calls, late) in enumerate([(10, {}), (13, {"late": 1})]):
        paid = {"paid": {"large-1": [calls, calls * 1_000, calls * 100]}}
        sk = keys.calls_sk(1, *claim, page)
        deployment.table.add(pk, sk, calls={}, call_usage=paid, **late)
    states = [(2, "INTENT"), (2, "DONE"), (2, "COMPENSATED"), (3, "UNKNOWN")]
    for chunk, state in states:
        deployment.table.add(pk, keys.effect_sk(chunk, state), state=state)
    # Its claim was answered, and has counted the call.
    counted = keys.effect_sk(3, "counted")
    deployment.table.add(pk, counted, state="INTENT", paid_fence=2)
    deployment.table.add(
        pk,
        "COST#worker",
        v=1,
        op__UpdateItem__requests=700_000,
        op__UpdateItem__units=800_000,
        op__TransactWriteItems__requests=100_000,
        op__TransactWriteItems__units=592_000,
        op__ReceiveMessage__requests=2_500,
        lost_writes=1,
        retries=3_000,
    )
    deployment.table.add(
        pk,
        "COST#orchestrator",
        op__SendMessageBatch__requests=1_000,
        op__TransactWriteItems__requests=200_000,
        op__TransactWriteItems__units=1_008_000,
        op__PutObject__requests=2_000,
        op__PutObject__bytes=1024**3 // 2,
        busy_ms=3_600_000,
    )


def test_the_bill_of_a_job(here: Deployment, tmp_path: Path) -> None:
    costly(here)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    size = ("--vcpu", "1", "--gb", "2")
    done = here.run("jobs", "cost", "a", *size, "--prices", str(prices))

    assert BILL.splitlines() == done.stdout.splitlines()
    assert 0 == done.exit_code


def test_the_bill_for_programs_is_complete(here: Deployment) -> None:
    costly(here)
    bill = here.document("jobs", "cost", "a")

    lines = [line["usd"] or 0 for line in bill["lines"]]
    assert bill["total_usd"] == pytest.approx(sum(lines))
    assert bill["chunk_usd"] == bill["total_usd"] / 4
    assert {"orchestrator", "worker"} == set(bill["by_actor_usd"])
    assert (88, 3) == tuple(bill["calls"][n]["calls"] for n in ("paid", "paid_twice"))
    assert bill["model_usd"] is None
    assert "2026-11-22" == bill["prices_dated"]
    items = [note.partition(":")[0] for note in bill["notes"][2:]]
    assert ["fax", "large-1, in", "large-1, out"] == items


def test_another_region_has_other_prices(here: Deployment) -> None:
    costly(here)
    here, there = (
        here.document("jobs", "cost", "a", *where)
        for where in [(), ("--region", "eu-west-1")]
    )

    assert ("us-east-1", "eu-west-1") == (here["region"], there["region"])
    assert here["total_usd"] < there["total_usd"]


def test_a_region_without_prices_is_refused_with_the_next_step(
    here: Deployment,
) -> None:
    costly(here)
    done = here.run("jobs", "cost", "a", "--region", "eu-north-1")

    assert 2 == done.exit_code
    assert "config.price.missing" in done.stderr
    assert "next: Add one with `--prices FILE`" in done.stderr


def test_a_running_job_has_a_bill_so_far(here: Deployment) -> None:
    here.job("a", "RUNNING", 1)
    here.chunk("a", 0, "RUNNING")
    bill = here.document("jobs", "cost", "a")

    assert 0 < bill["total_usd"] < 1e-4  # its row, and the deletion
    assert ["the job has not ended: this is the cost recorded so far"] == bill["notes"]


def test_the_price_of_an_idle_month_needs_no_aws(run: Run) -> None:
    done = run("infra", "cost", "--egress", "none", "--workers", "1")

    assert 0 == done.exit_code
    assert "private endpoints" in done.stdout
    assert "NAT" not in done.stdout
    assert "USD a month" in done.stdout


def test_the_page_shows_the_price_as_it_is_printed(run: Run) -> None:
    page = (ROOT / "docs/cost.md").read_text("utf-8")

    assert f"```\n{run('infra', 'cost').stdout}```\n" in page


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--vcpu", "inf"),
        ("--gb", "nan"),
        ("--logs", "inf"),
        ("--stored", "-1"),
        ("--workers", "5001"),
    ],
)
def test_a_size_that_no_task_has_is_refused(run: Run, option: str, value: str) -> None:
    done = run("infra", "cost", option, value)

    assert 2 == done.exit_code
    assert f"Invalid value for '{option}'" in done.stderr


def test_each_example_of_a_bill_names_a_region_with_prices() -> None:
    words = [line.split() for line in EXAMPLES if "cost" in line.split()]
    named = {line[line.index("--region") + 1] for line in words if "--region" in line}

    assert named
    assert named <= set(load_prices().regions)


def test_the_price_follows_the_options(run: Run) -> None:
    def total(*options: str) -> float:
        done = run("infra", "cost", "-o", "json", *options)
        return float(json.loads(done.stdout)["total_usd"])

    assert total("--egress", "public", "--arm") < total() < total("--workers", "2")
