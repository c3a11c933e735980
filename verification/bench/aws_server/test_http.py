from __future__ import annotations

from piecework_simulation.aws_server.http import Connection, Request
from verification.bench.aws_server.client import Reply

HEAD = b"POST /a?b=c HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n"


class Served:
    """A connection, and what it has asked for so far."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.line = Reply()
        self.connection = Connection(lambda request, _: self.requests.append(request))
        self.connection.connection_made(self.line)

    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]


def test_a_request_that_comes_in_pieces_is_served_when_it_is_whole() -> None:
    served = Served()
    for byte in HEAD + b"bod":
        served.connection.data_received(bytes([byte]))
    assert [] == served.requests

    served.connection.data_received(b"y")

    headers = {b"host": b"here", b"content-length": b"4"}
    assert [Request("POST", "/a", b"b=c", headers, b"body")] == served.requests


def test_the_next_request_waits_for_the_answer_of_the_one_before() -> None:
    served = Served()
    served.connection.data_received(HEAD + b"one." + HEAD + b"two.")
    assert [b"one."] == served.bodies()

    served.connection.answer(b"first")

    assert [b"one.", b"two."] == served.bodies()
    assert b"first" == served.line.sent


def test_an_abandoned_answer_is_cancelled() -> None:
    served = Served()
    off: list[bool] = []
    served.connection.data_received(HEAD + b"body")
    served.connection.on_lost = lambda: off.append(True)

    served.connection.connection_lost(None)
    served.connection.answer(b"too late")

    assert ([True], b"") == (off, served.line.sent)
