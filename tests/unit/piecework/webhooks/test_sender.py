"""What leaves the reconciler, and which addresses it never reaches."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Any

import pytest

from piecework.domain.webhook import WebhookEvent, body_of, with_link
from piecework.errors import PieceworkError
from piecework.webhooks.address import (
    check_url,
    is_open,
    read_networks,
    read_reference,
)
from piecework.webhooks.sender import Post, Sender, headers_of, sign
from piecework_examples.webhook_receiver.receiver import RefusedError, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_614_265_330.0


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The specification's example: other languages' libraries accept it."""
    found = sign(
        SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", '{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", [SECRET, "a plain secret of 32 characters!"])
def test_the_example_accepts_what_is_sent_and_refuses_what_was_changed(
    secret: str,
) -> None:
    post = Post("https://x.example", secret, "evt_1", '{"text":"ü"}', NOW)
    headers, body = headers_of(post), post.body.encode()
    assert verify(secret, headers, body, NOW + 299) == "evt_1"
    changed: list[tuple[dict[str, str], bytes, float]] = [
        (headers, body + b" ", NOW),
        (headers | {"webhook-id": "evt_2"}, body, NOW),
        (headers | {"webhook-timestamp": "1614265331"}, body, NOW),
        (headers | {"webhook-signature": "v1,"}, body, NOW),
        ({}, body, NOW),
        (headers, body, NOW + 301),
    ]
    for other, content, now in changed:
        with pytest.raises(RefusedError):
            verify(secret, other, content, now)


def test_a_message_for_slack_has_no_mention_and_no_link() -> None:
    event = WebhookEvent("job.ended", "evt_1", "", "t", "a <!channel> & b", "see <x>")
    assert body_of(event, "slack", "prod") == (
        '{"text":"*a &lt;!channel&gt; &amp; b*\\n`see &lt;x&gt;`\\n_prod · evt_1_"}'
    )


def test_a_question_has_its_link_in_each_format() -> None:
    event = WebhookEvent("question.asked", "evt_1", "", "t", "a", "b", data={"c": 1})
    for form, link in (("json", '"answer_url":"https://x"'), ("slack", "<https://x|")):
        assert link in with_link(body_of(event, form, "prod"), "https://x")


REFUSED = [
    "http://hooks.example/x",
    "ftp://hooks.example/x",
    "https:///x",
    "https://user:word@hooks.example/",
    "https://hooks.example:port/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest",
    "https://169.254.170.2/v2/credentials",
    "https://[fd00::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::a00:1]/",
    "https://0.0.0.0/",
    "https://127.0.0.2/",
    "http://127.1/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_inside_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(PieceworkError) as caught:
        check_url(url)
    assert caught.value.code == "webhook.address.refused"
    assert url not in caught.value.message


@pytest.mark.parametrize(
    "url", ["https://hooks.example/x", "http://localhost:1/", "http://[::1]:1/"]
)
def test_https_and_this_machine_are_allowed(url: str) -> None:
    check_url(url)


def test_a_private_network_can_be_allowed_but_never_the_credentials() -> None:
    networks = read_networks("10.0.0.0/8, 169.254.0.0/16")
    check_url("https://10.0.0.1/", networks)
    assert not is_open(ip_address("10.0.0.1"))
    assert not is_open(ip_address("169.254.170.2"), networks)


async def test_a_name_that_leads_inside_is_refused_at_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def inside(*_: Any, **__: Any) -> list[dict[str, Any]]:
        return [{"host": "10.0.0.1", "hostname": "", "port": 443, "family": 2}]

    monkeypatch.setattr("aiohttp.ThreadedResolver.resolve", inside)
    answer = await Sender(2.0)(Post("https://hooks.example/", "", "evt_1", "{}", NOW))
    assert answer.reason == "the name of the host leads to a private address"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n", "HTTP 302"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 9999999\r\n\r\nsecret", "HTTP 503"),
        (b"", "ServerDisconnectedError"),
        (None, "no answer within 0.3 s"),
    ],
)
async def test_only_2xx_is_a_delivery(reply: bytes | None, reason: str) -> None:
    asked: list[bytes] = []
    answered = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: Any) -> None:
        asked.append(await reader.readuntil(b"{}"))
        if reply is None:
            await reader.read()  # until the sender gives up
        writer.write(reply or b"")
        writer.close()
        await writer.wait_closed()
        answered.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        post = Post(f"http://127.0.0.1:{port}/x", SECRET, "evt_1", "{}", NOW)
        assert (await Sender(0.3)(post)).reason == reason
        await answered.wait()
    assert len(asked) == 1
    assert b"webhook-signature: v1," in asked[0]


def test_only_variables_of_webhooks_are_read_and_no_repr_shows_a_secret() -> None:
    environ = {"PIECEWORK_WEBHOOK_A": "secret", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert read_reference("env:PIECEWORK_WEBHOOK_A", environ) == "secret"
    for name in ("AWS_SECRET_ACCESS_KEY", "PIECEWORK_WEBHOOK_B"):
        with pytest.raises(PieceworkError, match=name):
            read_reference(f"env:{name}", environ)
    assert "secret" not in repr(Post("secret", "secret", "evt_1", "{}", NOW))


@pytest.mark.parametrize("secret", ["short", "whsec_not base64 but long enough!!!"])
async def test_a_weak_secret_is_not_used(secret: str) -> None:
    post = Post("http://127.0.0.1:9/", secret, "evt_1", "{}", NOW)
    assert "secret" in (await Sender(0.3)(post)).reason
