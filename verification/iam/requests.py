"""Read from a request its actor, actions, resources and conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from verification.iam.evaluate import Request
from verification.iam.operations import MEMBERS, NEEDS
from verification.iam.template import ACCOUNT, REGION

SIGNED = re.compile(r"Credential=([^/]+)/\d{8}/[^/]*/([a-z0-9-]+)/aws4_request")
#: Requests to AWS use TLS; requests to the proxy do not.
TLS = {"aws:securetransport": "true"}
INTO = re.compile(r'^INSERT INTO "([^"]+)"')
KEY_IS = re.compile(r"\bpk = (:\w+)")


@dataclass(frozen=True, slots=True)
class Wire:
    """A request as the proxy received it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def signed(self) -> tuple[str, str]:
        """The access key's id, which names the actor here, and the service."""
        found = SIGNED.search(self.headers.get("Authorization", ""))
        return (found[1], found[2]) if found else ("unsigned", "")


def permissions_needed(wire: Wire, change_sets: Mapping[str, str]) -> list[Request]:
    """Return every permission that a request needs; change sets belong to stacks.

    Raises:
        KeyError: For an operation that is not in the table.
    """
    _, service = wire.signed
    if service == "s3":
        return of_s3(wire)
    operation = wire.headers.get("X-Amz-Target", "").partition(".")[2]
    if service == "dynamodb":
        return of_dynamodb(operation, json.loads(wire.body))
    if service == "sqs":
        return of_sqs(operation, json.loads(wire.body))
    form = {k: v[0] for k, v in parse_qs(wire.body.decode()).items()}
    arn = stack(form, change_sets) if service == "cloudformation" else "*"
    return [Request(need, arn, TLS) for need in NEEDS[service][form["Action"]]]


def stack(form: Mapping[str, str], change_sets: Mapping[str, str]) -> str:
    """Return the ARN of the stack that a request to CloudFormation is about."""
    name = form.get("StackName") or change_sets.get(form["ChangeSetName"], "")
    if name.startswith("arn:"):
        return name
    return f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/0"


def of_sqs(operation: str, body: Mapping[str, Any]) -> list[Request]:
    """Return what a request to SQS needs."""
    queue = body.get("QueueName") or str(body["QueueUrl"]).rpartition("/")[2]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
    return [Request(need, arn, TLS) for need in NEEDS["sqs"][operation]]


def of_dynamodb(operation: str, body: Mapping[str, Any]) -> list[Request]:
    """Return what a request to DynamoDB needs, each with the keys that it names.

    Each member of a transaction has all its keys: the stricter of the two readings
    that IAM may use.
    """
    needs = NEEDS["dynamodb"][operation]
    if operation == "BatchExecuteStatement":
        return of_statements(needs, body["Statements"])
    if operation in {"BatchWriteItem", "BatchGetItem"}:
        return of_batch(needs, body["RequestItems"])
    if operation != "TransactWriteItems":
        key = partition(body)
        return [item_request(need, body, (key,) if key else ()) for need in needs]
    members = [one for item in body["TransactItems"] for one in item.items()]
    keys = tuple(sorted({partition(member) for _, member in members}))
    return [item_request(MEMBERS[kind], member, keys) for kind, member in members]


def of_batch(needs: Iterable[str], asked: Mapping[str, Any]) -> list[Request]:
    """Return what a batch of deletions or reads needs: of each table, all its keys."""
    found = []
    for table, some in asked.items():
        places = (
            some["Keys"]
            if "Keys" in some
            else [one["DeleteRequest"]["Key"] for one in some]
        )
        keys = sorted({str(place["pk"]["S"]) for place in places})
        part = {"TableName": table}
        found += [item_request(need, part, tuple(keys)) for need in needs]
    return found


def of_statements(
    needs: Iterable[str], statements: Sequence[Mapping[str, Any]]
) -> list[Request]:
    """Return what a batch of insertions needs; the first value of each is its key."""
    found = []
    for statement in statements:
        table = {"TableName": INTO.findall(statement["Statement"])[0]}
        key = str(statement["Parameters"][0]["S"])
        found += [item_request(need, table, (key,)) for need in needs]
    return found


def item_request(
    action: str, part: Mapping[str, Any], keys: tuple[str, ...]
) -> Request:
    """Return what an action on a table is."""
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{part['TableName']}"
    named = {"dynamodb:leadingkeys": keys} if keys else {}
    return Request(action, arn, {**TLS, **named})


def partition(part: Mapping[str, Any]) -> str:
    """Return the partition key that a request names; none for a scan."""
    if item := part.get("Key") or part.get("Item"):
        return str(item["pk"]["S"])
    if found := KEY_IS.search(part.get("KeyConditionExpression", "")):
        return str(part["ExpressionAttributeValues"][found[1]]["S"])
    return ""


def of_s3(wire: Wire) -> list[Request]:
    """Return what a request to S3 needs; paths begin with the bucket."""
    bucket, _, key = unquote(wire.path).lstrip("/").partition("/")
    arn = f"arn:aws:s3:::{bucket}"
    query = parse_qs(wire.query, keep_blank_values=True)
    if not key and wire.method == "GET" and "list-type" in query:
        prefix = {"s3:prefix": query["prefix"][0]} if "prefix" in query else {}
        return [Request("s3:ListBucket", arn, {**TLS, **prefix})]
    if not key and wire.method == "GET" and "versions" in query:
        prefix = {"s3:prefix": query["prefix"][0]} if "prefix" in query else {}
        return [Request("s3:ListBucketVersions", arn, {**TLS, **prefix})]
    if wire.method == "DELETE" and "versionId" not in query:
        return [Request("s3:DeleteObject", f"{arn}/{key}", TLS)]
    operations = {"PUT": "PutObject", "GET": "GetObject", "DELETE": "DeleteObject"}
    operation = operations[wire.method if key else ""]
    return [Request(need, f"{arn}/{key}", TLS) for need in NEEDS["s3"][operation]]
