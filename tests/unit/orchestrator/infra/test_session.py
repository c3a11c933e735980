"""The endpoint, region and credentials of a session."""

from __future__ import annotations

import pytest

from piecework.aws.endpoint import Endpoint
from piecework.errors import UsageError
from piecework_orchestrator.infra import session


def test_the_embedded_aws_ignores_the_users_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody-has-this")
    endpoint = Endpoint("http://127.0.0.1:9", "embedded", "us-east-1")

    client = session._client_factory(endpoint, "eu-west-1")("sts")

    meta = client.meta
    assert ("http://127.0.0.1:9", "eu-west-1") == (meta.endpoint_url, meta.region_name)
    client.close()


@pytest.mark.parametrize(
    ("region", "code"),
    [("", "config.region.missing"), ("eu-central-1", "aws.credentials.missing")],
)
def test_a_missing_region_or_credential_is_reported_before_any_request(
    region: str, code: str
) -> None:
    with pytest.raises(UsageError) as told:
        session.open_session(region)

    assert code == told.value.code
