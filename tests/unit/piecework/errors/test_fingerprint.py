"""Deaths of one cause have one fingerprint, whatever differs in their messages."""

from __future__ import annotations

import pytest

from piecework.errors.fingerprint import CAUSE_LIMIT, fingerprint, normalize


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Line 17 is bad.", "Line 4 is bad."),
        ("took 1.5 s, limit 1,000", "took 22.75 s, limit 30"),
        ("no clause 'Force majeure'", "no clause 'Term'"),
        ('no clause "a" in it', 'no clause "b" in it'),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example:80/z failed"),
        ("cannot read /srv/a/b.txt", "cannot read /home/me/c.pdf"),
        (r"cannot read C:\in\a.txt", r"cannot read D:\out\b.txt"),
        (
            "order 6f9619ff-8b86-d011-b42d-00c04fc964ff is gone",
            "order 00000000-8b86-d011-b42d-00c04fc964aa is gone",
        ),
        ("at 0x7f01 in object", "at 0xdeadbeef in object"),
        ("commit 9f86d081884c is gone", "commit 0aa1bb2cc3dd is gone"),
        ("too   long\nfor it", "Too long for it "),
    ],
)
def test_what_differs_from_death_to_death_does_not_count(one: str, other: str) -> None:
    assert fingerprint("c", "s", one) == fingerprint("c", "s", other)


@pytest.mark.parametrize(
    "other",
    [
        ("llm.http.503", "score", "The line is bad."),
        ("llm.http.500", "publish", "The line is bad."),
        ("llm.http.500", "score", "The line is long."),
    ],
)
def test_code_stage_and_cause_tell_deaths_apart(other: tuple[str, str, str]) -> None:
    assert fingerprint("llm.http.500", "score", "The line is bad.") != fingerprint(
        *other
    )


def test_a_fingerprint_is_twelve_hex_digits_and_stays_what_it_is() -> None:
    # Letters keep theirs for months: another value here splits their groups.
    assert "60fb0f1a5bf2" == fingerprint("tool.stock.none", "second", "out of stock")


def test_an_apostrophe_opens_no_quotation() -> None:
    assert "it doesn't fit the model's size" == normalize(
        "It doesn't fit the model's size"
    )


def test_words_that_look_like_hex_stay() -> None:
    assert "effaced deadbeef facade" == normalize("effaced deadbeef facade")


def test_where_a_long_message_was_cut_does_not_count() -> None:
    begin = "too long: " + "word " * CAUSE_LIMIT
    assert fingerprint("c", "s", begin) == fingerprint("c", "s", begin + "more")
