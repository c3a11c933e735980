"""Profiles of `aws login`: the AWS CLI hands their credentials over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from piecework.aws.certificates import new_session
from piecework.errors import UsageError
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework_orchestrator.doctor import run_checks
from piecework_orchestrator.infra.session import open_session

#: What `aws configure export-credentials` prints, or says when the login has expired.
CLI = """#!{python}
import json, sys
assert sys.argv[1:4] == ["configure", "export-credentials", "--profile"], sys.argv
if sys.argv[4] == "old":
    sys.exit("Your session has expired. Please reauthenticate using 'aws login'.")
print(json.dumps({{
    "Version": 1, "AccessKeyId": "AKIA-" + sys.argv[4], "SecretAccessKey": "s",
    "SessionToken": "t", "Expiration": "2099-01-01T00:00:00Z",
}}))
"""
PROFILES = """
[default]
login_session = arn:aws:iam::111122223333:user/ann
region = eu-central-1
[profile "two words"]
login_session = arn:aws:iam::111122223333:user/ben
[profile old]
login_session = arn:aws:iam::111122223333:user/eve
region = eu-central-1
"""


@pytest.fixture(autouse=True)
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    config = tmp_path / "config"
    config.write_text(PROFILES)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(tmp_path / "none"))
    return tmp_path / "bin"


@pytest.fixture
def cli(profiles: Path) -> None:
    profiles.mkdir()
    (profiles / "aws").write_text(CLI.format(python=sys.executable))
    (profiles / "aws").chmod(0o755)


@pytest.mark.usefixtures("cli")
@pytest.mark.parametrize("profile", [None, "two words"])
async def test_a_profile_of_aws_login_gives_credentials_that_renew_themselves(
    profile: str | None,
) -> None:
    session = new_session(profile_name=profile)
    credentials = await session.get_credentials()
    frozen = await credentials.get_frozen_credentials()

    name = profile or "default"
    assert (f"AKIA-{name}", "t") == (frozen.access_key, frozen.token)
    assert not credentials.refresh_needed()


@pytest.mark.usefixtures("cli")
def test_the_doctor_reads_the_profile_too() -> None:
    found = {check.name: check for check in run_checks(load_settings(), {})}

    assert found["credentials"].ok
    assert found["region"].detail.startswith("eu-central-1")


@pytest.mark.usefixtures("cli")
async def test_a_login_that_has_expired_says_that_one_must_sign_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "old")

    with pytest.raises(UsageError) as told:
        async with connect(load_settings()):
            pass
    assert "aws.credentials.unavailable" == told.value.code
    assert "reauthenticate" in told.value.message
    assert "`aws login`" in told.value.next_step
    with pytest.raises(Exception, match="reauthenticate"):
        open_session("eu-central-1")


async def test_without_the_cli_the_profile_says_what_to_install() -> None:
    with pytest.raises(UsageError) as told:
        async with connect(load_settings()):
            pass
    assert "aws.credentials.unavailable" == told.value.code
    assert "Put the AWS CLI on the PATH" in told.value.message
    found = {check.name: check for check in run_checks(load_settings(), {})}
    assert "Put the AWS CLI on the PATH" in found["credentials"].detail
    with pytest.raises(UsageError, match="Put the AWS CLI on the PATH"):
        open_session("eu-central-1")
