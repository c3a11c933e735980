"""The real emulator: started, found, deployed to, stopped, two at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest

from piecework.aws.endpoint import Emulator
from piecework.domain import keys
from piecework.errors import UsageError
from piecework_orchestrator import embedded
from piecework_orchestrator.embedded import server
from piecework_orchestrator.embedded.deploy import make_client


@pytest.mark.usefixtures("emulator_python")
def test_up_twice_is_one_server_and_down_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither concerns an AWS of this machine.
    monkeypatch.setenv("AWS_PROFILE", "nobody-has-this")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    first = embedded.up("piecework", "local", tmp_path)
    again = embedded.up("piecework", "local", tmp_path)
    assert again == first
    assert embedded.count_active_jobs(first) == 0
    dynamodb = make_client("dynamodb", first)
    for sk in (keys.active_sk("default", "a"), keys.outbox_sk("default")):
        row = {"pk": {"S": keys.ACTIVE_PK}, "sk": {"S": sk}}
        dynamodb.put_item(TableName="piecework-local-checkpoints", Item=row)
    dynamodb.close()
    assert embedded.count_active_jobs(first) == 1
    taken = urlsplit(first.endpoint).port or 0
    with pytest.raises(UsageError) as refused:
        embedded.up("piecework", "local", tmp_path / "two", port=taken)
    assert refused.value.code == "embedded.port.in_use"
    (unseen,) = server.pid_files(tmp_path)
    unseen.rename(tmp_path / "aside")
    assert embedded.up("piecework", "local", tmp_path) == first
    with pytest.raises(UsageError) as refused:
        embedded.down(tmp_path)
    assert refused.value.code == "embedded.state.in_use"
    (tmp_path / "aside").rename(unseen)
    assert embedded.down(tmp_path) == first
    assert embedded.count_active_jobs(first) == 0
    assert embedded.down(tmp_path) is None
    assert not server.is_our_server(first.pid, tmp_path)


@pytest.mark.attack("web pages")
@pytest.mark.usefixtures("emulator_python")
def test_two_folders_have_two_servers_and_up_after_a_crash_starts_anew(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    folders = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor(2) as pool:
        first, other = pool.map(
            lambda folder: embedded.up(
                "piecework", "local", folder, report=said.append
            ),
            folders,
        )
    try:
        assert first.endpoint != other.endpoint
        assert [] == [line for line in said if "gone" in line]
        server.stop(first.pid, folders[0])  # the state file still tells of it
        taken = urlsplit(first.endpoint).port or 0
        second = embedded.up(
            "piecework", "local", folders[0], port=taken, report=said.append
        )
        (died,) = [line for line in said if "gone" in line]
        assert f"(process {first.pid}) has died: its jobs, results and" in died
        assert second.pid != first.pid
        assert embedded.count_active_jobs(first) == 0  # the second has its port
        assert server.fetch_version(second.endpoint, 5.0) == second.version
        assert [200, 403, 403, 403] == [
            status_of(second, second.key),
            status_of(second, "embedded"),
            status_of(second, second.key, Origin="https://attacker.example"),
            status_of(second, second.key, Host="attacker.example"),
        ]
        assert (folders[0] / "emulator.json").stat().st_mode & 0o077 == 0
    finally:
        for folder in folders:
            embedded.down(folder)


def status_of(emulator: Emulator, key: str, **headers: str) -> int:
    """Return the status of a request for the list of buckets."""
    signature = f"AWS4-HMAC-SHA256 Credential={key}/20261123/us-east-1/s3/aws4_request"
    url = urlsplit(emulator.endpoint)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=5)
    connection.request("GET", "/", headers={"Authorization": signature} | headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_remote_endpoint_stops_up_and_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://sqs.eu-west-1.amazonaws.com")
    with pytest.raises(UsageError):
        embedded.up("piecework", "local", tmp_path)
    with pytest.raises(UsageError):
        embedded.down(tmp_path)


def test_a_deployed_queue_has_its_redrive_policy(
    deployed: Emulator, environment_name: str
) -> None:
    sqs = boto3.client("sqs")
    url = sqs.get_queue_url(QueueName=f"piecework-{environment_name}-work")["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    sqs.close()
    assert url.startswith(deployed.endpoint)
    assert found["VisibilityTimeout"] == "90"
    assert f"piecework-{environment_name}-work-dlq" in found["RedrivePolicy"]
