from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.packed import packed
from piecework.domain.refs import JobRef
from tests.unit.orchestrator.cli.deployment import SETTLED, Deployment

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def job(here: Deployment) -> None:
    here.job("a", "RUNNING", 2)
    here.succeeded("a", 0, ["x"])
    here.chunk("a", 1, "WAITING", claim_token="secret", error_code="llm.x.y")


def test_chunks_are_listed_in_order(run: Run) -> None:
    lines = [line.split() for line in run("chunks", "list", "a").stdout.splitlines()]
    assert [["0", "SUCCEEDED"], ["1", "WAITING"]] == [line[:2] for line in lines[1:]]


def test_chunks_are_filtered_by_status(run: Run) -> None:
    done = run("chunks", "list", "a", "--status", "waiting", "-o", "jsonl")
    assert [1] == [json.loads(line)["chunk"] for line in done.stdout.splitlines()]


def test_a_table_ends_after_a_page_and_a_document_has_every_chunk(
    here: Deployment,
) -> None:
    here.job("b", "RUNNING", 120)
    for number in range(120):
        here.chunk("b", number, "WAITING")
    assert 120 == len(here.document("chunks", "list", "b"))
    table = here.run("chunks", "list", "b")
    assert 101 == len(table.stdout.splitlines())
    assert "only the first 100 are listed; --limit 0 lists all" in table.stderr
    limited = here.run("chunks", "list", "b", "-o", "json", "--limit", "7")
    assert 7 == len(json.loads(limited.stdout))


def test_the_claim_token_is_never_shown(run: Run) -> None:
    assert "secret" not in run("chunks", "show", "a", "1", "-o", "json").stdout
    assert "secret" not in run("chunks", "list", "a", "-o", "json").stdout


def test_a_chunk_is_shown_with_its_stages_calls_effects_and_errors(
    here: Deployment,
) -> None:
    pk, work = JobRef("default", "a").pk, keys.work_prefix(1)
    error = json.dumps({"code": "llm.x.y", "error_class": "transient", "message": "no"})
    add = here.table.add
    add(pk, f"{work}STAGE#sew#0001", stage="sew", finished_at=SETTLED, gen=1, fence=1)
    cut = {"finished_at": SETTLED[:-5], "gen": 1, "fence": 1, "value": '"secret"'}
    here.chunk("a", 1, "WAITING", stages={"cut": cut, "sew": {"fence": 1}})
    add(
        pk,
        f"{work}CALLS#0001#0001#0001",
        answers=packed({"k1": "1", "k2": "2"}),
        count=3,
        large={"k3": {}},
    )
    add(pk, f"{work}EFFECT#k", effect_key="k", state="UNKNOWN", stage="book")
    add(pk, f"{work}ERROR#0001#0001", error=error, attempt=1, at=SETTLED, worker="w1")
    found = here.document("chunks", "show", "a", "1")
    assert ["cut", "sew"] == [stage["stage"] for stage in found["stages"]]
    assert "secret" not in str(found)
    assert 3 == found["calls_in_journal"]
    assert ["UNKNOWN"] == [effect["state"] for effect in found["effects"]]
    assert ["llm.x.y"] == [error["code"] for error in found["errors"]]
    shown = here.run("chunks", "show", "a", "1").stdout
    titles = ("completed stages", "effects", "errors")
    assert [] == [title for title in titles if title not in shown]


def test_compensations_are_shown_in_their_order(here: Deployment) -> None:
    pk, work = JobRef("default", "a").pk, keys.work_prefix(1)
    for at, stage in enumerate(("car", "hotel", "flight")):
        moment = f"2027-01-15T07:59:5{at}.000Z"
        row: dict[str, Any] = {"stage": stage, "finished_at": moment, "gen": 1}
        row |= {"error": "{}"} if stage == "hotel" else {}
        here.table.add(pk, f"{work}COMPENSATED#0001#{stage}", **row)
    document = here.document("chunks", "show", "a", "1")
    found = document["compensated"]
    assert ["car", "hotel", "flight"] == [each["stage"] for each in found]
    assert [True, False, True] == [each["ok"] for each in found]


@pytest.mark.parametrize("word", ["x", "1.5", "", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_word_that_is_not_a_number_is_refused_as_a_chunk(run: Run, word: str) -> None:
    assert 2 == run("chunks", "show", "a", word).exit_code


@pytest.mark.parametrize(
    ("value", "expected", "printed"),
    [
        ({"a": [1, "ü"]}, {"result": {"a": [1, "ü"]}}, 'a: [1, "ü"]'),
        (None, {"result": None}, "null"),
        ({"a": [math.nan]}, {"result": {"a": ["NaN"]}}, 'a: ["NaN"]'),
        (
            "x" * 20_000,
            {"result_excerpt": '"' + "x" * 4_095, "result_bytes": 20_002},
            "the beginning of 20,002 bytes",
        ),
    ],
    ids=["object", "null", "nan", "long"],
)
def test_a_chunk_shows_its_result_and_of_a_long_one_the_beginning(
    here: Deployment, value: Any, expected: Any, printed: str
) -> None:
    here.succeeded("a", 0, value)
    found = here.document("chunks", "show", "a", "0")
    names = {"result", "result_excerpt", "result_bytes", "result_error"}
    assert expected == {name: found[name] for name in names & found.keys()}
    assert printed in here.run("chunks", "show", "a", "0").stdout


def test_a_chunk_whose_result_is_gone_says_so(here: Deployment) -> None:
    here.succeeded("a", 0, 1)
    row = here.table.rows[JobRef("default", "a").pk, keys.result_sk(0)]
    prefix = keys.object_prefix("default", "a")
    row |= {"value_at": f"{prefix}/value/x", "value_sha256": "ab"}
    found = here.document("chunks", "show", "a", "0")
    assert found["result_error"].startswith("runtime.object.missing")
