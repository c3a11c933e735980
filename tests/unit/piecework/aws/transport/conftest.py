"""One moment for both clients, and no waiting between two tries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.piecework.aws.transport.both import NOW


@pytest.fixture
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)
    for module in ("botocore.auth", "botocore.endpoint"):
        monkeypatch.setattr(f"{module}.get_current_datetime", lambda: moment)
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0
    )
