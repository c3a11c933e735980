"""Check everything that a run needs, and name the next step for each failure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from piecework.aws.endpoint import (
    ENDPOINT_VARIABLES,
    IN_PROCESS,
    Emulator,
    find_endpoint,
    is_loopback,
    refuse_two_meanings,
)
from piecework.aws.login import read_logins
from piecework.aws.trust import mend_client, tls_error
from piecework.domain.keys import DEFAULT_QUEUE, WORKERS_PK, tenant_prefix, webhooks_pk
from piecework.domain.rows import WorkerRow
from piecework.domain.webhook import Webhook
from piecework.errors import PieceworkError, UsageError
from piecework.settings import Settings
from piecework.store.serialization import from_item
from piecework_orchestrator.embedded import server
from piecework_orchestrator.embedded.deploy import make_client
from piecework_orchestrator.embedded.server import find
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.quotas import (
    ON_DEMAND,
    SPOT,
    fleet_of,
    raise_command,
    read_quota,
)

OLDEST_PYTHON = (3, 11)
PACKAGES = ("aiobotocore", "boto3", "pydantic", "structlog")
HEALTH_S = 2.0
EMBEDDED_ACCOUNT = "000000000000"
START = "run `piecework up`"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, with the next step if it failed."""

    name: str
    ok: bool
    detail: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoint of AWS calls from this directory and environment, and why."""

    endpoint: str | None
    reason: str
    emulator: Emulator | None = None
    loopback: bool = False


def run_checks(
    settings: Settings,
    environ: Mapping[str, str] = os.environ,
    queues: Sequence[str] = (),
    *,
    aws: bool = False,
) -> list[Check]:
    """Check the machine, then the endpoint, then the deployed resources.

    `queues` are those of pipelines, beside the default queue and those of workers.
    `aws`: read the quotas of the account, too.
    """
    done = [_check_python(), _check_packages()]
    try:
        target = _find_target(environ)
    except PieceworkError as error:
        message, step = error.message, error.next_step
        return [*done, Check("endpoint", ok=False, detail=message, next_step=step)]
    done += [_check_endpoint(target), _check_loopback(target)]
    if target.emulator:
        done.append(_check_emulator(target.emulator))
    region = _check_region(target, environ)
    done.append(region)
    credentials = _check_credentials(target)
    done.append(credentials)
    if all(check.ok for check in done):
        where = region.detail.split()[0]
        done += _check_resources(settings, target, where, queues)
        if aws:
            done += _check_quotas(target, where)
    return done


def _check_python() -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(str(part) for part in OLDEST_PYTHON)
    ok = sys.version_info >= OLDEST_PYTHON
    return Check("python", ok, found, "" if ok else f"install Python {wanted} or newer")


def _check_packages() -> Check:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    detail = ", ".join(found + [f"{name} missing" for name in missing])
    step = "run `pip install piecework`" if missing else ""
    return Check("packages", not missing, detail, step)


def _find_target(environ: Mapping[str, str]) -> Target:
    """Find the endpoint as the runtime does: environment, state file, then AWS."""
    for name in ENDPOINT_VARIABLES:
        if environ.get(name):
            here = find_endpoint(environ).loopback
            return Target(environ[name], f"{name} is set", loopback=here)
    if emulator := find():
        refuse_two_meanings(environ, server.resolve_folder(None))
        by = "dev" if emulator.version == IN_PROCESS else "up"
        by = f"started by `piecework {by}`"
        return Target(emulator.endpoint, by, emulator, loopback=True)
    return Target(None, "no endpoint variable, no emulator of this folder")


def _check_endpoint(target: Target) -> Check:
    return Check(
        "endpoint", ok=True, detail=f"{target.endpoint or 'AWS'}: {target.reason}"
    )


def _check_loopback(target: Target) -> Check:
    if target.loopback:
        return Check("loopback", ok=True, detail="yes: no call leaves this machine")
    if target.endpoint and is_loopback(target.endpoint):
        return Check("loopback", ok=True, detail="no: another service is elsewhere")
    if target.endpoint:
        return Check("loopback", ok=True, detail="no: `demo` and `down` refuse to run")
    detail = "no: only `demo` and `run` use an AWS of their own"
    return Check("loopback", ok=True, detail=detail)


def _check_emulator(emulator: Emulator) -> Check:
    try:
        found = server.fetch_version(emulator.endpoint, HEALTH_S)
    except (OSError, ValueError) as error:
        detail = f"pid {emulator.pid} does not answer: {type(error).__name__}"
        return Check("emulator", ok=False, detail=detail, next_step=START)
    program = "models" if found == IN_PROCESS else "MiniStack"
    return Check("emulator", ok=True, detail=f"{program} {found}, pid {emulator.pid}")


def _check_region(target: Target, environ: Mapping[str, str]) -> Check:
    """Check the region; the two variables for it may differ."""
    from botocore.exceptions import BotoCoreError

    if target.emulator:
        return Check("region", ok=True, detail=f"{target.emulator.region} (embedded)")
    default, plain = environ.get("AWS_DEFAULT_REGION"), environ.get("AWS_REGION")
    if default and plain and default != plain:
        detail = f"{default} in AWS_DEFAULT_REGION, {plain} in AWS_REGION"
        return Check(
            "region", ok=False, detail=detail, next_step="set both to one region"
        )
    if chosen := default or plain:
        return Check("region", ok=True, detail=chosen)
    try:
        profile = _make_session().region_name
    except BotoCoreError as error:
        return _config_failure("region", error)
    if profile:
        return Check("region", ok=True, detail=f"{profile} (from the profile)")
    step = f"set AWS_REGION; for the embedded AWS, {START}"
    return Check("region", ok=False, detail="none", next_step=step)


def _check_credentials(target: Target) -> Check:
    from botocore.exceptions import BotoCoreError

    if target.emulator:
        detail = "test credentials of the embedded AWS; your own are not used"
        return Check("credentials", ok=True, detail=detail)
    try:
        found = _make_session().get_credentials()
    except BotoCoreError as error:
        return _config_failure("credentials", error)
    if found is None:
        step = f"sign in with the AWS CLI; for the embedded AWS, {START}"
        return Check("credentials", ok=False, detail="none", next_step=step)
    return Check("credentials", ok=True, detail=f"from {found.method}")


def _config_failure(name: str, error: Exception) -> Check:
    """Return the failed check of an AWS configuration, in the words of the SDK."""
    step = f"correct the profile or the variables; for the embedded AWS, {START}"
    return Check(name, ok=False, detail=str(error), next_step=step)


def _check_resources(
    settings: Settings, target: Target, region: str, queues: Sequence[str]
) -> Iterator[Check]:
    """Check each resource by name, even if another check failed."""
    try:
        sqs, dynamodb, s3 = (
            _make_client(name, target, region) for name in ("sqs", "dynamodb", "s3")
        )
    except UsageError as error:
        message, step = error.message, error.next_step
        yield Check("certificates", ok=False, detail=message, next_step=step)
        return
    dead = settings.dead_letter_queue
    found = _queues_of_workers(settings, dynamodb)
    checked = ["", *queues, *sorted(found.difference(queues))]
    for queue, name in [*((q, settings.queue_name(q)) for q in checked), ("", dead)]:
        step = f"run `piecework up --queue {queue}`, or deploy with Queue1={queue}"
        call = partial(sqs.get_queue_url, QueueName=name)
        yield _check_call(f"queue {name}", call, missing=step if queue else "")
    for table in (settings.checkpoints_table, settings.dead_letters_table):
        yield _check_call(
            f"table {table}", partial(dynamodb.describe_table, TableName=table)
        )
    account = EMBEDDED_ACCOUNT
    if not target.emulator:
        sts = _make_client("sts", target, region)
        identity = _check_call("account", sts.get_caller_identity, shown="Account")
        yield identity
        account = identity.detail
    bucket = settings.bucket(account, region)
    # The role of one tenant may list only the prefix of that tenant.
    prefix = tenant_prefix(settings.tenant)
    call = partial(s3.list_objects_v2, Bucket=bucket, Prefix=prefix, MaxKeys=1)
    yield _check_call(f"bucket {bucket}", call)
    yield _check_webhooks(settings, dynamodb)


def _check_quotas(target: Target, region: str) -> Iterator[Check]:
    """Tell how many small workers each quota of Fargate allows.

    They are bought as service.yaml does by default; `infra deploy` compares the quotas
    with the fleet that its parameters name.
    """
    if target.loopback:
        yield Check("quotas", ok=True, detail="an emulator has none")
        return
    client = _make_client("service-quotas", target, region)
    fleet = fleet_of(Environment("", ""), {})
    for quota in (ON_DEMAND, SPOT):
        try:
            allowed = read_quota(client, quota)
        except PieceworkError as error:
            yield Check(quota.name, ok=False, detail=error.message)
            continue
        if allowed is None:
            detail = "may not be read: servicequotas:GetServiceQuota"
            yield Check(quota.name, ok=True, detail=detail)
            continue
        most = fleet.most(quota, allowed)
        step = f"run `{raise_command(quota, 100)}`" if most < 1 else ""
        detail = f"{allowed:g}: {most} small workers, in the default split"
        yield Check(quota.name, ok=most >= 1, detail=detail, next_step=step)


def _queues_of_workers(settings: Settings, dynamodb: Any) -> set[str]:
    """Return the queues of running workers, beside the default one."""
    from botocore.exceptions import BotoCoreError, ClientError

    found = set[str]()
    with suppress(BotoCoreError, ClientError, PieceworkError):  # others tell it
        rows = dynamodb.query(
            TableName=settings.checkpoints_table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": WORKERS_PK}},
        )["Items"]
        for report in (WorkerRow(from_item(row)) for row in rows):
            if report.is_live(time.time()):
                found |= set(report.queues)
    return found - {DEFAULT_QUEUE}


def _check_webhooks(settings: Settings, dynamodb: Any) -> Check:
    """Check that no event to a webhook has failed finally."""
    pk = {":pk": {"S": webhooks_pk(settings.tenant)}}
    query = partial(
        dynamodb.query,
        TableName=settings.checkpoints_table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues=pk,
    )
    read = _check_call("webhooks", query, shown="Count")
    if not read.ok or read.detail == "0":
        return read
    hooks = [Webhook(from_item(item)) for item in query()["Items"]]
    failing = [hook for hook in hooks if hook.failed_at]
    if not failing:
        return Check("webhooks", ok=True, detail=f"{len(hooks)}, no event has failed")
    hook = failing[0]
    detail = f"{hook.name} did not accept an event: {hook.last_error}"
    step = f"repair its receiver, then run `piecework webhooks retry {hook.name}`"
    return Check("webhooks", ok=False, detail=detail, next_step=step)


def _check_call(
    name: str, call: Callable[[], Any], shown: str = "", missing: str = ""
) -> Check:
    """Call AWS once; `shown`: the key of the answer to show; `missing`: what helps."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = call()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        step = missing or f"{START}, or deploy infra/data.yaml to your account"
        return Check(name, ok=False, detail=str(code), next_step=step)
    except BotoCoreError as error:
        if (untrusted := tls_error(error, "AWS", time.time())) is not None:
            message, step = untrusted.message, untrusted.next_step
            return Check(name, ok=False, detail=message, next_step=step)
        step = "check the endpoint, the network and the credentials"
        return Check(name, ok=False, detail=type(error).__name__, next_step=step)
    return Check(name, ok=True, detail=str(answer[shown]) if shown else "found")


def _make_client(service: str, target: Target, region: str) -> Any:
    from botocore.config import Config

    if target.emulator:
        return make_client(service, target.emulator)
    config = Config(
        connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2}
    )
    # No endpoint is passed, because the endpoint variables decide.
    client = _make_session().client(service, region_name=region, config=config)
    mend_client(client)
    return client


def _make_session() -> Any:
    import boto3
    import botocore.session

    core = botocore.session.Session()
    read_logins(core)
    return boto3.Session(botocore_session=core)
