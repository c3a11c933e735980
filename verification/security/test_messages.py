"""Ten thousand messages by `make security`; here some hundred, from the same seed."""

from __future__ import annotations

import json
import sys
from random import Random

import pytest

from piecework.aws.queue import BODY_LIMIT, read
from verification.security import audit_hook
from verification.security.fuzz import FAMILIES, GOOD
from verification.security.receiving import receive


async def test_whatever_is_received_nobody_crashes_imports_or_reads_a_strangers() -> (
    None
):
    found = await receive(650)
    assert [] == found.crashed
    assert [] == found.forbidden
    assert [] == found.crossed
    assert 650 == found.ends.total()
    assert found.ends["nothing"] == 0
    assert found.ends["runtime.message.malformed"] > 300
    assert found.ends["runtime.message.orphan"] > 0
    assert found.ends["done"] > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_read_without_a_word(family: object) -> None:
    assert callable(family)
    rng = Random(3)
    for _ in range(20):
        raw = {"Body": family(rng), "ReceiptHandle": "r", "MessageId": "m"}
        assert read(raw).body == raw["Body"]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(GOOD)[:-1] + ', "tenant": "globex"}',
        json.dumps(GOOD).replace("1}", "NaN}"),
        json.dumps(GOOD).replace('"v": 1', '"v": 1e999'),
        json.dumps(GOOD).replace("acme", "\ud800"),
        json.dumps(GOOD).replace("acme", "\\ud800"),
        "\ufeff" + json.dumps(GOOD),
        "é" * (BODY_LIMIT // 2 + 1),
    ],
)
def test_what_two_readers_would_read_differently_is_nobodys(body: str) -> None:
    raw = {"Body": body, "ReceiptHandle": "r", "MessageId": "m"}
    delivery = read(raw)
    assert (None, False) == (delivery.message, delivery.newer)


def test_an_import_would_have_been_noticed() -> None:
    sys.modules.pop("this_is_no_module", None)
    with audit_hook.watching() as found:
        with pytest.raises(ModuleNotFoundError):
            __import__("this_is_no_module")
        eval("1")  # noqa: S307 -- to be noticed
    assert {each.partition(" ")[0] for each in found} >= {"import", "exec"}
