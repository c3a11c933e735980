"""Names that lead somewhere else, in all the spellings that readers have fallen for."""

from __future__ import annotations

from urllib.parse import quote

#: Where an attacker wants to go.
GOALS = (
    "etc/passwd",
    "root/.aws/credentials",
    "tenants/globex/jobs/j/certificate/1.json",
    "proc/self/environ",
    "x.jsonl",
)
#: How to go up by one, as text, encoded, encoded twice, and with look-alikes.
UPS = (
    "../",
    "..\\",
    "./../",
    "....//",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "%2E%2E%5C",
    "%252e%252e%252f",
    "%25252e%25252e%25252f",
    "..%c0%af",
    "..%ef%bc%8f",
    "\uff0e\uff0e/",
    "..\uff0f",
    "\u2024\u2024/",
    "..\u2044",
    "..\uff3c",
    "..\u0000/",
    "..%00/",
    "..;/",
)
#: How to begin at the top, or at another machine or scheme.
TOPS = (
    *("/", "//", "///", "\\", "\\\\", "/./", "file:///", "C:\\", "%2f", "%5c"),
    *("\uff0f", "\u2215", "\\\\?\\", "//host/", "s3://other/", "http://127.0.0.1/"),
)
#: What a reader may cut off, skip, or obey.
ODD = (
    *("\u0000", "\n", "\r\n", "\t", "\u001b[2J", "\u007f", "\u0085", "\u2028"),
    *("\u202e", "\ufeff", "\u200b/", "\ud800", "%00", "%0a", "%0d%0a"),
)
#: Texts that are not names, or are too long.
BARE = (
    *("", ".", "..", "/", "\\", "-/..", "a/", "a//b", "/a", "a/./b", "a/../b"),
    *("a\\b", "a/..;/b", "a b/..", "./", "../", "/.", "/..", "a/.", "a/.."),
)
OVERLONG = (
    "a/" * 1_000 + "x.jsonl",
    "../" * 1_000 + "x.jsonl",
    "x" * 5_000,
    "%2e" * 2_000,
)


def strings() -> list[str]:
    """Return at least 500 of them, each once."""
    made = [up * times + goal for up in UPS for times in (1, 3, 12) for goal in GOALS]
    made += [top + goal for top in TOPS for goal in GOALS]
    made += [f"artifact{odd}.jsonl" for odd in ODD]
    made += [f"{odd}../{goal}" for odd in ODD for goal in GOALS]
    made += [f"ok/{up}{goal}" for up in UPS for goal in GOALS[:2]]
    made += [
        quote(quote(up + goal, safe="", errors="replace"))
        for up in UPS
        for goal in GOALS[:1]
    ]
    return list(dict.fromkeys([*made, *BARE, *OVERLONG]))
