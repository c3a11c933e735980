"""Accept each event once, if its signature is valid; the standard library is enough.

Copy `verify` and `Inbox` into your service, whatever its framework:

1. Verify the signature over the bytes as they came, before you parse them.
2. Store the event's id in the transaction of your work. A known id is a repetition.
3. Answer 200 for both: any other answer makes Piecework send the event again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from time import time
from typing import Any

#: Seconds by which the time of a request may differ from ours. A recorded request that
#: comes again later is refused, although its signature is valid.
TOLERANCE_S = 300
#: A body is smaller; a larger one does not come from Piecework.
MAX_BYTES = 256 * 1024


class RefusedError(Exception):
    """A request that does not come from our Piecework."""


def verify(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Return the event's id if the signature is valid and recent.

    Raises:
        RefusedError: It is not; the message says why.
    """
    event = headers.get("webhook-id") or ""
    sent_at = headers.get("webhook-timestamp") or ""
    if not event or not sent_at.isdigit():
        raise RefusedError("the headers of a webhook are missing")
    if abs(now - int(sent_at)) > TOLERANCE_S:
        raise RefusedError("the request is too old, or our clock is wrong")
    key = secret.encode()
    if secret.startswith("whsec_"):
        key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{event}.{sent_at}.".encode() + body
    digest = hmac.digest(key, content, hashlib.sha256)
    expected = f"v1,{base64.b64encode(digest).decode()}"
    # A header may have several signatures, while a secret is being replaced.
    for given in (headers.get("webhook-signature") or "").split():
        if hmac.compare_digest(given.encode(), expected.encode()):
            return event
    raise RefusedError("the signature is wrong")


@dataclass(slots=True)
class Inbox:
    """The events that were accepted; its file survives a restart."""

    database: sqlite3.Connection

    @classmethod
    def open(cls, path: Path) -> Inbox:
        """Open or create the file."""
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA synchronous = FULL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body TEXT)"
        )
        return cls(database)

    def accept(self, event: str, body: bytes) -> bool:
        """Store an event with the work that it causes; False: it is a repetition."""
        row = self.database.execute(
            "INSERT OR IGNORE INTO events VALUES (?, ?)", (event, body.decode())
        )
        return row.rowcount == 1

    def bodies(self) -> list[dict[str, Any]]:
        """Return the accepted events, in the order of their arrival."""
        rows = self.database.execute("SELECT body FROM events ORDER BY rowid")
        return [json.loads(body) for (body,) in rows]


def serve(secret: str, path: Path, port: int = 0) -> HTTPServer:
    """Return a server on this machine that accepts events into the file."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Accept one event."""
            size = int(self.headers.get("content-length") or 0)
            if size > MAX_BYTES:
                self.answer(413)
                return
            body = self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                event = verify(secret, headers, body, time())
            except RefusedError:
                self.answer(401)
                return
            new = inbox.accept(event, body)
            self.answer(200)
            if new:
                print(json.loads(body).get("text", ""), flush=True)

        def answer(self, status: int) -> None:
            """Answer without a body."""
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write no access log."""

    server = HTTPServer(("127.0.0.1", port), Handler)
    inbox = Inbox.open(path)
    return server
