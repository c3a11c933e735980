from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from piecework.aws.endpoint import (
    Emulator,
    Endpoint,
    find_endpoint,
    read_state,
    state_folder,
)
from piecework.errors import UsageError

STATE: dict[str, Any] = {
    "endpoint": "http://127.0.0.1:4566",
    "pid": 1,
    "region": "eu-west-1",
    "version": "1",
    "key": "embedded17",
}


def left_behind(directory: Path) -> Path:
    path = directory / ".piecework" / "emulator.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(STATE))
    return path.parent


def test_without_configuration_the_sdk_selects_aws(tmp_path: Path) -> None:
    endpoint = find_endpoint({}, tmp_path)
    assert endpoint == Endpoint("", "aws", "")
    assert endpoint.client_arguments() == {}


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"])
def test_the_environment_comes_first_and_is_left_to_the_sdk(
    name: str, tmp_path: Path
) -> None:
    left_behind(tmp_path)
    endpoint = find_endpoint({name: "http://localhost:1"}, tmp_path)
    partial = name != "AWS_ENDPOINT_URL"
    expected = Endpoint(LOCAL, "environment", "us-east-1", partial=partial)
    assert (expected, not partial) == (endpoint, endpoint.loopback)
    assert endpoint.client_arguments() == {}


VPC = "https://bucket.vpce-1a2b.s3.eu-central-1.vpce.amazonaws.com"
LOCAL = "http://localhost:1"


@pytest.mark.parametrize(
    "named",
    [
        {"AWS_ENDPOINT_URL_S3": VPC},
        {"AWS_ENDPOINT_URL": VPC},
        {"AWS_ENDPOINT_URL_DYNAMODB": LOCAL, "AWS_ENDPOINT_URL_SQS": VPC},
    ],
)
def test_an_endpoint_that_is_not_on_this_machine_leaves_the_region_to_the_sdk(
    named: dict[str, str], tmp_path: Path
) -> None:
    endpoint = find_endpoint(named, tmp_path)
    assert ("environment", "") == (endpoint.source, endpoint.region)
    told = find_endpoint({**named, "AWS_REGION": "eu-west-1"}, tmp_path)
    assert "eu-west-1" == told.region


@pytest.mark.parametrize("url", ["localhost:4566", "http://[::1", "http://a:99999"])
def test_an_endpoint_that_is_not_a_url_is_an_error_of_the_user(
    url: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL_S3 is '"):
        find_endpoint({"AWS_ENDPOINT_URL_S3": url}, tmp_path)


def test_an_empty_variable_is_ignored(tmp_path: Path) -> None:
    assert find_endpoint({"AWS_ENDPOINT_URL": ""}, tmp_path).source == "aws"


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": ""}, "eu-west-1"),
    ],
)
def test_the_region_of_ecs_is_mapped(
    environment: dict[str, str], region: str, tmp_path: Path
) -> None:
    endpoint = find_endpoint(environment, tmp_path)
    assert region == endpoint.region


def test_the_state_of_up_is_found_from_a_subfolder(tmp_path: Path) -> None:
    left_behind(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    endpoint = find_endpoint({}, below)
    url = "http://127.0.0.1:4566"
    assert endpoint == Endpoint(url, "embedded", "eu-west-1", "embedded17")
    assert endpoint.client_arguments() == {
        "endpoint_url": "http://127.0.0.1:4566",
        "region_name": "eu-west-1",
        "aws_access_key_id": "embedded17",
        "aws_secret_access_key": "embedded",
    }


def test_the_nearest_state_counts(tmp_path: Path) -> None:
    left_behind(tmp_path)
    near = left_behind(tmp_path / "near")
    assert near == state_folder({}, tmp_path / "near")


def test_a_named_directory_comes_before_the_search(tmp_path: Path) -> None:
    left_behind(tmp_path)
    named = {"PIECEWORK_STATE_DIR": str(tmp_path / "named")}
    assert tmp_path / "named" == state_folder(named, tmp_path)
    assert find_endpoint(named, tmp_path).source == "aws"


def test_without_a_state_one_would_be_made_right_here(tmp_path: Path) -> None:
    assert tmp_path / ".piecework" == state_folder({}, tmp_path)


@pytest.mark.attack("planted files")
@pytest.mark.parametrize("name", ["AWS_PROFILE", "AWS_ACCESS_KEY_ID"])
def test_a_state_that_was_only_found_does_not_replace_an_account(
    name: str, tmp_path: Path
) -> None:
    folder = left_behind(tmp_path)
    with pytest.raises(UsageError, match=name) as refused:
        find_endpoint({name: "mine"}, tmp_path / "below")
    assert refused.value.code == "embedded.state.ambiguous"

    named = {name: "mine", "PIECEWORK_STATE_DIR": str(folder)}
    assert find_endpoint(named, tmp_path).source == "embedded"


@pytest.mark.attack("planted files")
def test_a_state_of_another_machine_or_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = left_behind(tmp_path)
    with monkeypatch.context() as other:
        other.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
        with pytest.raises(UsageError) as foreign:
            read_state(folder)
    assert foreign.value.code == "embedded.state.foreign"

    away = STATE | {"endpoint": "https://collector.example"}
    (folder / "emulator.json").write_text(json.dumps(away))
    with pytest.raises(UsageError, match=r"collector\.example") as elsewhere:
        find_endpoint({}, tmp_path)
    assert elsewhere.value.code == "embedded.state.foreign"


def test_the_state_reads_as_it_was_written(tmp_path: Path) -> None:
    assert Emulator(**STATE) == read_state(left_behind(tmp_path))


def test_no_state_is_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "{", '{"endpoint": "a", "pid": "x"}', "\udcff"]
)
def test_a_broken_state_is_refused_with_its_name(content: str, tmp_path: Path) -> None:
    path = tmp_path / "emulator.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UsageError) as caught:
        read_state(tmp_path)
    assert caught.value.code == "embedded.state.unreadable"
    assert str(path) in caught.value.next_step
