"""The HTTP side of S3: objects by method and path, errors and listings in XML."""

from __future__ import annotations

from email.utils import format_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from botocore.exceptions import ClientError

from piecework_simulation.aws.s3 import S3
from piecework_simulation.aws_server.http import Answer, Request, unknown_operation

XML = "application/xml"
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
#: Headers and parameters of a URL that the model knows, to its names of them.
HEADERS = {
    b"if-match": "IfMatch",
    b"if-none-match": "IfNoneMatch",
    b"range": "Range",
    b"content-type": "ContentType",
}
PARAMETERS = {
    "prefix": "Prefix",
    "start-after": "StartAfter",
    "max-keys": "MaxKeys",
    "continuation-token": "ContinuationToken",
}
#: What each method reads of an object's headers, and the model's name of it.
OPERATIONS = {
    "PUT": "put_object",
    "GET": "get_object",
    "HEAD": "head_object",
    "DELETE": "delete_object",
}
WRITTEN = {"IfMatch", "IfNoneMatch", "ContentType"}
READ = {"IfMatch", "IfNoneMatch", "Range"}
OF_METHOD = {"PUT": WRITTEN, "GET": READ, "HEAD": READ, "DELETE": set[str]()}
#: Parameters that name something else of a bucket or an object than itself.
ELSE = ("uploads", "uploadId", "location", "delete", "policy", "versioning")


class Buckets:
    """The buckets of an account."""

    def __init__(self, model: S3) -> None:
        self._model = model

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        bucket, _, key = unquote(request.path).lstrip("/").partition("/")
        given = parse_qs(request.query.decode(), keep_blank_values=True)
        try:
            if request.method not in OPERATIONS or any(name in given for name in ELSE):
                raise NotImplementedError(f"{request.method} {request.query!r}")
            if key:
                version = given.get("versionId", ["null"])
                if version != ["null"]:
                    raise NotImplementedError("a version beside the only one")
                return self._object(request, bucket, key)
            return self._bucket(request, bucket, given)
        except ClientError as error:
            return error_answer(error, request)
        except NotImplementedError as why:
            return unknown_operation(why)

    def _object(self, request: Request, bucket: str, key: str) -> Answer:
        asked: dict[str, Any] = {"Bucket": bucket, "Key": key}
        wanted = OF_METHOD[request.method]
        for header, name in HEADERS.items():
            if name in wanted and header in request.headers:
                asked[name] = request.headers[header].decode("latin-1")
        if request.method == "PUT":
            asked["Body"] = request.body
        reply = self._model.call(OPERATIONS[request.method], asked)
        match request.method:
            case "PUT":
                return Answer(HTTPStatus.OK, b"", {"ETag": reply["ETag"]})
            case "DELETE":
                return Answer(HTTPStatus.NO_CONTENT, b"", {})
        partial = "ContentRange" in reply
        status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
        body = reply["Body"].content if "Body" in reply else b""
        return Answer(
            status, body, response_headers(reply), size=reply["ContentLength"]
        )

    def _bucket(
        self, request: Request, bucket: str, given: dict[str, list[str]]
    ) -> Answer:
        if request.method == "PUT":
            self._model.create_bucket(bucket)
            return Answer(HTTPStatus.OK, b"", {"Location": f"/{bucket}"})
        if request.method == "DELETE":
            raise NotImplementedError("a bucket's end")
        asked: dict[str, Any] = {"Bucket": bucket}
        if "versions" in given:
            asked["Prefix"] = given.get("prefix", [""])[0]
            return versions_answer(self._model.call("list_object_versions", asked))
        for parameter, name in PARAMETERS.items():
            if parameter in given:
                [text] = given[parameter]
                asked[name] = int(text) if name == "MaxKeys" else text
        return list_answer(self._model.call("list_objects_v2", asked))


def response_headers(reply: dict[str, Any]) -> dict[str, str]:
    """Return the response headers of an object."""
    headers = {
        "Content-Type": reply["ContentType"],
        "ETag": reply["ETag"],
        "Accept-Ranges": reply["AcceptRanges"],
        "Last-Modified": format_datetime(reply["LastModified"], usegmt=True),
    }
    if "ContentRange" in reply:
        headers["Content-Range"] = reply["ContentRange"]
    return headers


def list_answer(reply: dict[str, Any]) -> Answer:
    """Return a page of a bucket's keys."""
    parts = {
        "Name": reply["Name"],
        "Prefix": reply["Prefix"],
        "KeyCount": reply["KeyCount"],
        "MaxKeys": reply["MaxKeys"],
        "IsTruncated": str(reply["IsTruncated"]).lower(),
        "NextContinuationToken": reply.get("NextContinuationToken"),
    }
    rows = "".join(
        f"<Contents>{list_entry(row)}</Contents>" for row in reply.get("Contents", [])
    )
    said = f'<ListBucketResult xmlns="{NAMESPACE}">{xml_elements(parts)}{rows}'
    return document(f"{said}</ListBucketResult>")


def versions_answer(reply: dict[str, Any]) -> Answer:
    """Return a page of a bucket's versions."""
    parts = {name: reply[name] for name in ("Name", "Prefix")}
    parts["IsTruncated"] = str(reply["IsTruncated"]).lower()
    rows = "".join(
        f"<Version>{list_entry({**row, 'IsLatest': 'true'})}</Version>"
        for row in reply.get("Versions", [])
    )
    said = f'<ListVersionsResult xmlns="{NAMESPACE}">{xml_elements(parts)}{rows}'
    return document(f"{said}</ListVersionsResult>")


def list_entry(row: dict[str, Any]) -> str:
    """Return the listing entry of an object."""
    modified = row["LastModified"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return xml_elements({**row, "LastModified": modified})


def xml_elements(parts: dict[str, Any]) -> str:
    """Return elements with a text each."""
    return "".join(
        f"<{name}>{escape(str(value))}</{name}>"
        for name, value in parts.items()
        if value is not None
    )


def error_answer(error: ClientError, request: Request) -> Answer:
    """Return an error; the reply to a HEAD has no body, only the status."""
    said: Any = error.response
    status = said["ResponseMetadata"]["HTTPStatusCode"]
    if request.method == "HEAD" or status == HTTPStatus.NOT_MODIFIED:
        return Answer(status, b"", {})
    code, message = said["Error"]["Code"], said["Error"]["Message"]
    parts = xml_elements({"Code": code, "Message": message, "RequestId": "0"})
    return document(f"<Error>{parts}</Error>", status)


def document(text: str, status: int = HTTPStatus.OK) -> Answer:
    """Return an answer in XML."""
    declared = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'
    return Answer(status, declared.encode(), {"Content-Type": XML})
