from __future__ import annotations

from pathlib import Path

import pytest

from piecework.aws.objects import is_object_key
from verification.security.entry_points import let_through
from verification.security.traversal import strings


@pytest.mark.attack("links")
async def test_no_entry_point_lets_a_name_lead_elsewhere(tmp_path: Path) -> None:
    names = strings()
    assert len(names) >= 500
    assert {} == {k: v for k, v in (await let_through(tmp_path, names)).items() if v}


@pytest.mark.parametrize(
    "key",
    [
        "tenants/acme/jobs/2026-11-22_a/payload/0a1b.jsonl",
        "in/contracts 2026/Müller & Söhne (final).jsonl",
        "data/2026-11-22T07:00:00Z/part=1/a+b,c.jsonl",
        "100%.jsonl",
    ],
)
def test_an_ordinary_key_is_taken(key: str) -> None:
    assert is_object_key(key)
