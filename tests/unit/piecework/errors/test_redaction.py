from __future__ import annotations

import pytest

from piecework.errors.redaction import learn_secrets, redact, shortened

SECRETS = [
    ("key AKIAIOSFODNN7EXAMPLE is bad", "key [redacted aws key] is bad"),
    ("ASIAY34FZKBOKMUTVV7A", "[redacted aws key]"),
    (
        "secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY!",
        "secret [redacted secret]!",
    ),
    ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted token]"),
    ("authorization: basic dXNlcjpwYXNz", "authorization: basic [redacted token]"),
    (
        "t=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end",
        "t=[redacted token] end",
    ),
    ("bad key sk-proj-abcdef123456", "bad key [redacted api key]"),
    ("ghp_abcdefghijklmnop1234", "[redacted api key]"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted api key]"),
    ("api_key=abcd1234 is bad", "[redacted secret] is bad"),
    ('{"password": "hunter22"}', '{"[redacted secret]"}'),
    ("x-api-key: abcd1234, next", "x-[redacted secret], next"),
    ("?access_token=abcd1234&page=2", "?[redacted secret]&page=2"),
    ("mail ann.lee+x@mail.example.org now", "mail [redacted email] now"),
    ("card 4111 1111 1111 1111 declined", "card [redacted card] declined"),
    ("card 4111-1111-1111-1111", "card [redacted card]"),
    ("378282246310005", "[redacted card]"),
    ("digest " + "0a" * 32, "digest [redacted secret]"),
    ("at https://ann:s3cret@host/x", "at https://[redacted url password]@host/x"),
    ("redis://:s3cretpass9@redis:6379", "redis://[redacted url password]@redis:6379"),
    ("postgres://u:p@s/w0rd@db:5/x", "postgres://[redacted url password]@db:5/x"),
    ('{"token": "abcd1234"}', '{[redacted secret]"}'),
    (r"{\"password\":\"hunter2hunter\"}", r'{\"[redacted secret]"}'),
    (r'{\\"token\\": \\"abcd1234\\"}', r'{\\[redacted secret]"}'),
    (r"{\"Authorization\":\"abcd1234\"}", r'{\"[redacted token]"}'),
    ("Uid=sa;Pwd=hunter22;x", "Uid=sa;[redacted secret];x"),
    ("?token=abcd1234&page=2", "?[redacted secret]&page=2"),
    ("refresh_token: abcd1234", "[redacted secret]"),
    ("Authorization: Token 9944b09199c6", "[redacted token]"),
    ("AccountName=a;AccountKey=Eby8vdM0==;x", "AccountName=a;[redacted secret];x"),
    ("SharedAccessKey=abcd12+/=;x", "[redacted secret];x"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\nend",
        "[redacted private key]\nend",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow", "[redacted private key]"),
    ("hf_" + "aB" * 17, "[redacted api key]"),
    ("npm_" + "a1" * 18, "[redacted api key]"),
    ("SG." + "a1" * 11 + "." + "b2" * 21, "[redacted api key]"),
    ("dop_v1_" + "0a" * 32, "[redacted api key]"),
    ("key-" + "0a" * 16 + "-0a1b2c3d-4e5f6a7b", "[redacted api key]"),
]

PERSONAL = [
    ("to DE89 3704 0044 0532 0130 00 now", "to [redacted personal number] now"),
    ("ssn 123-45-6789.", "ssn [redacted personal number]."),
    ("call +49 30 901820", "call [redacted personal number]"),
]

HARMLESS = [
    "",
    "The chunk 17 of job 01JD2Q8Z7N failed with 503.",
    "4111 1111 1111 1112",
    "order 1234567890123",
    "at 2026-11-21T21:50:00.000000+00:00",
    "3f2c8a52-9f8e-4a34-9d0c-0d5b6a7c8e9f",
    "arn:aws:sqs:us-east-1:000000000000:piecework-local-work",
    "module.submodule.another_submodule.with_a_rather_long_name.function",
    "https://sqs.us-east-1.amazonaws.com/000000000000/piecework-local-work-dlq",
    "GET http://localhost:8080/of/@ann failed",
    "task-related bearer of news",
    "the secret of max_tokens: 4096 is idempotency_key: stable",
    "SyntaxError: unexpected token: identifier",
    *[text for text, _ in PERSONAL],
]


@pytest.mark.attack("secrets")
@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_secret_is_masked_by_its_kind(text: str, expected: str) -> None:
    assert expected == redact(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_operators_need_is_left_alone(text: str) -> None:
    assert text == redact(text)


@pytest.mark.parametrize(("text", "expected"), PERSONAL)
def test_a_personal_number_is_masked_on_request(text: str, expected: str) -> None:
    try:
        learn_secrets({"piecework_redact": "all"})
        assert expected == redact(text)
        assert "order 1234567890123" == redact("order 1234567890123")
    finally:
        learn_secrets({})


@pytest.mark.parametrize("text", [text for text, _ in SECRETS])
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(text) == redact(redact(text))


@pytest.mark.attack("secrets")
@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, "a." * 10_000, "1 " * 10_000, "secret " * 5_000, "+1 " * 5_000],
)
def test_a_long_hostile_message_is_read_in_no_time(text: str) -> None:
    assert text == redact(text)


def test_a_secret_that_is_learned_later_is_masked_in_a_text_seen_before() -> None:
    said = "refused: correct horse battery"
    try:
        assert said == shortened(said, 100)
        learn_secrets({"SOME_TOKEN": "correct horse battery"})
        assert "refused: [redacted secret]" == shortened(said, 100)
    finally:
        learn_secrets({})
