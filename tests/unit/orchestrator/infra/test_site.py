"""Where a command works: as every other command finds out, or in a named region."""

from __future__ import annotations

import pytest

from orchestrator.infra import site
from piecework.endpoint import Endpoint
from piecework.errors import UsageError


def test_the_embedded_aws_is_asked_whatever_the_users_profile_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody-has-this")
    endpoint = Endpoint("http://127.0.0.1:9", "embedded", "us-east-1")

    client = site._maker(endpoint, "eu-west-1")("sts")

    meta = client.meta
    assert ("http://127.0.0.1:9", "eu-west-1") == (meta.endpoint_url, meta.region_name)
    client.close()


@pytest.mark.parametrize(
    ("region", "code"),
    [("", "config.region.missing"), ("eu-central-1", "aws.credentials.missing")],
)
def test_what_is_missing_is_said_before_anything_is_asked(
    region: str, code: str
) -> None:
    with pytest.raises(UsageError) as told:
        site.visit(region)

    assert code == told.value.code
