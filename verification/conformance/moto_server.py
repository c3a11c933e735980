"""moto as a server on this machine, one request at a time.

Its handlers read, check and write without a lock, so that two claims can both win. A
receive is left out of the lock: it may wait for a message that another request sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

LOOPBACK = "127.0.0.1"


class Locked:
    """A web application behind one lock."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.lock = Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage":
            return self.answer(environ, start)
        with self.lock:
            return self.answer(environ, start)

    def answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Answer a request; an error in moto's code becomes a reply of 500."""
        try:
            return list(self.application(environ, start))
        except Exception:  # noqa: BLE001 -- an error of any kind, in foreign code
            start("500 Internal Server Error", [])
            return [b""]


@contextmanager
def running() -> Iterator[str]:
    """Run moto in a thread of this process; yield where it listens."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: object) -> None:
            """Do not log requests."""

    application = Locked(DomainDispatcherApplication(create_backend_app))
    server = make_server(LOOPBACK, 0, application, threaded=True, request_handler=Quiet)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
