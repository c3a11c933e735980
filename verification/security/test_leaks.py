"""A hundred canaries by `make security`; here those that need one process only."""

from __future__ import annotations

import pytest

from piecework.aws.endpoint import Emulator
from piecework.errors.payload_redaction import redact_quotes
from piecework.errors.redaction import learn_secrets, redact
from piecework.runtime import connect
from piecework.settings import load_settings
from verification.security.canaries import Planted, leaks
from verification.security.deployment import SHORT
from verification.security.leaking import leaked


async def test_no_canary_is_anywhere_but_where_payloads_belong(
    deployed: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)
    async with connect(load_settings()) as rt:
        assert [] == await leaked(rt, Planted(), apart=False, commands=2)


def test_a_leak_is_found_however_it_is_spelt() -> None:
    canary = "The party of amber basalt cobalt damson ebony x7y2k9q4"
    for text in (
        canary,
        canary.upper(),
        "-".join(canary),
        canary[5:30],
        f"a\\n{canary}",
    ):
        assert leaks([canary], {"there": text})
    assert [] == leaks([canary], {"there": "The party of amber"})


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("cannot read 'Dear Ann, you owe us'", "cannot read '[quoted]'"),
        ("DEAR ANN YOU OWE US!", "[quoted]!"),
        ("for 2026-0017-A: no", "for [quoted]: no"),
        ("no contract", "no contract"),
        ("Dear Ann", "Dear Ann"),
    ],
)
def test_what_an_error_quotes_is_taken_out(message: str, kept: str) -> None:
    given = {"text": "Dear Ann, you owe us", "number": "2026-0017-A", "k": ["contract"]}
    assert kept == redact_quotes(message, given)


def test_what_the_environment_keeps_secret_is_masked() -> None:
    try:
        learn_secrets(
            {"MY_API_KEY": "correct horse battery", "HOME_KEY": "/home/key-of-ours"}
        )
        assert "[redacted secret] at /home/key-of-ours" == redact(
            "correct horse battery at /home/key-of-ours"
        )
    finally:
        learn_secrets({})
