"""Probe S3 objects: whole writes, partial reads, ordered listings."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from hashlib import md5
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from verification.conformance.probe import probe
from verification.conformance.subject import Subject

FAILED = "PreconditionFailed 412"


async def refusal(call: Awaitable[Any]) -> str:
    """Return the code and the status with which a call is refused."""
    try:
        await call
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return f"{error.response['Error']['Code']} {status}"
    return "accepted"


async def put(subject: Subject, key: str, content: Any, **more: Any) -> str:
    """Write an object and return its ETag."""
    where = {"Bucket": subject.bucket, "Key": key}
    reply = await subject.s3.put_object(**where, Body=content, **more)
    return str(reply["ETag"])


async def get(subject: Subject, key: str, **more: Any) -> str:
    """Read an object, or a part of it."""
    where = {"Bucket": subject.bucket, "Key": key}
    reply = await subject.s3.get_object(**where, **more)
    async with reply["Body"] as body:
        content: bytes = await body.read()
        return content.decode()


@probe("what was written last is read", expected="two text/plain")
async def _(subject: Subject) -> str:
    await put(subject, "last", b"one")
    await put(subject, "last", b"two", ContentType="text/plain")
    where = {"Bucket": subject.bucket, "Key": "last"}
    reply = await subject.s3.head_object(**where)
    return f"{await get(subject, 'last')} {reply['ContentType']}"


@probe("an open file is written", expected="a file")
async def _(subject: Subject) -> str:
    await put(subject, "file", BytesIO(b"a file"))
    return await get(subject, "file")


@probe("an ETag is the quoted MD5 of the content", expected="it is, read and written")
async def _(subject: Subject) -> str:
    written = await put(subject, "etag", b"content")
    where = {"Bucket": subject.bucket, "Key": "etag"}
    read = (await subject.s3.head_object(**where))["ETag"]
    digest = md5(b"content", usedforsecurity=False).hexdigest()
    same = written == read == f'"{digest}"'
    return "it is, read and written" if same else f"{written}, {read}"


@probe("a range is read, cut at the end", expected="123, 89, 89")
async def _(subject: Subject) -> str:
    await put(subject, "range", b"0123456789")
    wanted = ("bytes=1-3", "bytes=8-99", "bytes=-2")
    return ", ".join([await get(subject, "range", Range=part) for part in wanted])


@probe("a range says where it lies", expected="bytes 1-3/10 3")
async def _(subject: Subject) -> str:
    await put(subject, "where", b"0123456789")
    where = {"Bucket": subject.bucket, "Key": "where", "Range": "bytes=1-3"}
    reply = await subject.s3.get_object(**where)
    async with reply["Body"] as body:
        await body.read()
    return f"{reply['ContentRange']} {reply['ContentLength']}"


@probe("a range behind the end is refused", expected="InvalidRange 416")
async def _(subject: Subject) -> str:
    await put(subject, "short", b"0123456789")
    return await refusal(get(subject, "short", Range="bytes=10-12"))


@probe("what is not there is not read", expected="NoSuchKey 404, 404 404")
async def _(subject: Subject) -> str:
    where = {"Bucket": subject.bucket, "Key": "nothing"}
    head = await refusal(subject.s3.head_object(**where))
    return f"{await refusal(get(subject, 'nothing'))}, {head}"


@probe("a bucket that is not there is named", expected="NoSuchBucket 404")
async def _(subject: Subject) -> str:
    where = {"Bucket": "nobodys-bucket-of-all", "Key": "k"}
    return await refusal(subject.s3.get_object(**where))


@probe("a write may insist on being the first", expected=f"accepted, {FAILED}, one")
async def _(subject: Subject) -> str:
    first = await refusal(put(subject, "first", b"one", IfNoneMatch="*"))
    second = await refusal(put(subject, "first", b"two", IfNoneMatch="*"))
    return f"{first}, {second}, {await get(subject, 'first')}"


@probe("a write may insist on what it replaces", expected=f"{FAILED}, accepted, two")
async def _(subject: Subject) -> str:
    etag = await put(subject, "match", b"one")
    wrong = await refusal(put(subject, "match", b"three", IfMatch='"x"'))
    right = await refusal(put(subject, "match", b"two", IfMatch=etag))
    return f"{wrong}, {right}, {await get(subject, 'match')}"


@probe("it cannot replace what is not there", expected="NoSuchKey 404")
async def _(subject: Subject) -> str:
    return await refusal(put(subject, "absent", b"one", IfMatch='"x"'))


@probe("a read may insist on what it knows", expected=f"304 304, {FAILED}")
async def _(subject: Subject) -> str:
    etag = await put(subject, "known", b"one")
    same = await refusal(get(subject, "known", IfNoneMatch=etag))
    return f"{same}, {await refusal(get(subject, 'known', IfMatch=json.dumps('x')))}"


@probe("deleting what is not there is no error", expected="accepted, NoSuchKey 404")
async def _(subject: Subject) -> str:
    where = {"Bucket": subject.bucket, "Key": "gone"}
    await put(subject, "gone", b"one")
    await subject.s3.delete_object(**where)
    again = await refusal(subject.s3.delete_object(**where))
    return f"{again}, {await refusal(get(subject, 'gone'))}"


@probe("the lines of an object are read", expected="one|two||three")
async def _(subject: Subject) -> str:
    await put(subject, "lines", b"one\ntwo\n\nthree")
    where = {"Bucket": subject.bucket, "Key": "lines"}
    body = (await subject.s3.get_object(**where))["Body"]
    async with body:
        return "|".join([line.decode() async for line in body.iter_lines()])


@probe("a listing is in order, page by page", expected="l/1 l/10, l/9")
async def _(subject: Subject) -> str:
    for key in ("l/9", "l/10", "l/1", "m/1"):
        await put(subject, key, b"")
    request = {"Bucket": subject.bucket, "Prefix": "l/", "MaxKeys": 2}
    first = await subject.s3.list_objects_v2(**request)
    token = first["NextContinuationToken"]
    last = await subject.s3.list_objects_v2(**request, ContinuationToken=token)
    pages = [[found["Key"] for found in page["Contents"]] for page in (first, last)]
    return ", ".join(" ".join(keys) for keys in pages)


@probe("an empty listing has no contents", expected="0, no Contents, False")
async def _(subject: Subject) -> str:
    request = {"Bucket": subject.bucket, "Prefix": "nothing/"}
    reply = await subject.s3.list_objects_v2(**request)
    contents = "Contents" if "Contents" in reply else "no Contents"
    return f"{reply['KeyCount']}, {contents}, {reply['IsTruncated']}"
