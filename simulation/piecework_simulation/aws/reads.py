"""Answer GetItem, Query and Scan, with their page limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from piecework_simulation.aws.errors import InvalidError
from piecework_simulation.aws.partitions import Partition, everything
from piecework_simulation.aws.plans import check_values, read_key_condition
from piecework_simulation.aws.values import WireItem
from piecework_simulation.aws.writes import read_key

PAGE_BYTES = 1024 * 1024
NOTHING = Partition()


def get(
    partitions: Mapping[str, Partition], request: Mapping[str, Any], *, stale: bool
) -> dict[str, Any]:
    """Answer GetItem."""
    pk, sk = read_key(request["Key"], whole=True)
    item = partitions.get(pk, NOTHING).read(sk, stale=stale)
    return {} if item is None else {"Item": item.copy()}


def query(
    partitions: Mapping[str, Partition],
    request: Mapping[str, Any],
    page_items: int | None,
    *,
    stale: bool,
) -> dict[str, Any]:
    """Answer Query."""
    names = request.get("ExpressionAttributeNames")
    condition = read_key_condition(
        request["KeyConditionExpression"],
        None if names is None else frozenset(names.items()),
    )
    values = check_values(condition.plan, request.get("ExpressionAttributeValues"))
    pk = values[condition.pk]["S"]
    partition = partitions.get(pk, NOTHING)
    after = ""
    if "ExclusiveStartKey" in request:
        begin, after = read_key(request["ExclusiveStartKey"], whole=True)
        if begin != pk:
            raise InvalidError("The provided starting key is invalid")
    forward = request.get("ScanIndexForward", True)
    rows = partition.rows(condition.cut(values), after, forward=forward, stale=stale)
    return _page(rows, request, page_items)


def scan(
    partitions: Mapping[str, Partition],
    order: Iterable[str],
    request: Mapping[str, Any],
    page_items: int | None,
    *,
    stale: bool,
) -> dict[str, Any]:
    """Answer Scan, with the partitions in the given order."""
    places, after = list(order), ""
    if "ExclusiveStartKey" in request:
        begin, after = read_key(request["ExclusiveStartKey"], whole=True)
        if begin not in places:
            raise NotImplementedError("a scan from a partition that is gone")
        places = places[places.index(begin) :]
    rows = (
        row
        for number, pk in enumerate(places)
        for row in partitions[pk].rows(everything, "" if number else after, stale=stale)
    )
    return _page(rows, request, page_items)


def _page(
    rows: Iterable[tuple[WireItem, int]],
    request: Mapping[str, Any],
    page_items: int | None,
) -> dict[str, Any]:
    """Return the items up to a limit, and the start of the next page."""
    limit = request.get("Limit", page_items) or PAGE_BYTES
    if page_items is not None:
        limit = min(limit, page_items)
    found: list[WireItem] = []
    size, last = 0, None
    for item, bytes_of_item in rows:
        found.append(item.copy())
        size += bytes_of_item
        if len(found) >= limit or size >= PAGE_BYTES:
            last = {"LastEvaluatedKey": {"pk": item["pk"], "sk": item["sk"]}}
            break
    count = {"Count": len(found), "ScannedCount": len(found)}
    match request.get("Select", "ALL_ATTRIBUTES"):
        case "COUNT":
            return {**count, **(last or {})}
        case "ALL_ATTRIBUTES":
            return {"Items": found, **count, **(last or {})}
        case other:
            raise NotImplementedError(f"Select={other}")
