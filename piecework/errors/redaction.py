"""Redact secrets and personal data in a message before it is stored or shown.

Only the shapes below are recognised, so keep payloads out of messages. Codes and types
are not redacted: they contain no data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_MASK: Final = "[redacted {}]"
_LUHN_BASE: Final = 10

# The order matters: a specific shape wins over the general ones at the end.
# JSON within JSON has backslashes before its quotes.
_SHAPES: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "private key",
            (
                r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
                r"[^-]{0,8192}(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?"
            ),
        ),
        # A user may be empty, and a password may contain what a URL should escape.
        # A number before a slash is a port: "http://host:80/of/ann@mail.org".
        ("url password", r"(?<=://)[^\s/:@]{0,256}:(?!\d{1,5}/)\S{1,256}(?=@)"),
        ("email", r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"),
        ("aws key", r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,20}\b"),
        ("token", r"(?i)(?<=\bbearer )[\w.~+/=-]{8,4096}"),
        ("token", r"(?i)(?<=\bbasic )[\w+/=-]{8,4096}"),
        ("token", r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
        ("api key", r"\b(?:sk|pk|rk)[-_][\w-]{12,}"),
        ("api key", r"\b(?:gh[pousr]_|github_pat_|xox[abprs]-|glpat-)[\w-]{16,}"),
        ("api key", r"\bAIza[\w-]{35}"),
        ("api key", r"\b(?:hf_|npm_|dop_v1_)\w{16,}|\bSG\.[\w-]{16,}\.[\w-]{16,}"),
        ("api key", r"(?:\bkey-)?\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b"),
        (
            "token",
            (
                r"(?i)\bauthorization\\{0,8}[\"']?[ \t]{0,4}[=:][ \t]{0,4}\\{0,8}[\"']?"
                r"(?!(?:bearer|basic)\b)(?:[a-z-]{1,20} )?[^\s\"',;\[\]]{4,4096}"
            ),
        ),
        (
            "secret",
            (
                r"(?i)(?<![A-Za-z0-9])"
                r"(?:password|passwd|pwd|secret|(?:shared[-_]?)?(?:api|access|account)[-_]?key"
                r"|(?:access|refresh|session|auth|id)[-_]?token)"
                r"\\{0,8}[\"']?[ \t]{0,4}[=:][ \t]{0,4}\\{0,8}[\"']?"
                r"[^\s\"'&,;\[\]]{4,4096}"
            ),
        ),
        # Parsers write "unexpected token: x", so the word alone is not enough.
        (
            "secret",
            (
                r"(?i)(?<![A-Za-z0-9_-])"
                r"(?:token=|[\"']token\\{0,8}[\"'][ \t]{0,4}:[ \t]{0,4})"
                r"\\{0,8}[\"']?[^\s\"'&,;\[\]]{4,4096}"
            ),
        ),
        ("secret", r"\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{32,}\b"),
        (
            "secret",
            (
                r"(?<![\w+/])(?=[\w+/]*[0-9])(?=[\w+/]*[a-z])(?=[\w+/]*[A-Z])"
                r"[A-Za-z0-9+/]{40,}={0,2}"
            ),
        ),
    )
)
# The query of a URL is data and often a signature; its host and path are kept.
_QUERY: Final = re.compile(
    r"(?i)(\bhttps?://[^\s?#\"'<>]{1,2048}\?)(?!\[redacted )[^\s\"'<>]{1,8192}"
)
# Numbers of persons and accounts. They are masked on request alone: order numbers and
# phone numbers look the same.
_PERSONAL: Final = re.compile(
    r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"  # IBAN
    r"|(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"  # social security number
    r"|(?<![\w+])\+\d{1,3}(?:[ -]?\(?\d{2,4}\)?){2,5}(?![\w-])"  # E.164 phone number
)
_CARD: Final = re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])")


#: Characters of a text that are read; the rest is dropped.
READ_LIMIT: Final = 8_192
#: Characters before a cut that are dropped too: half a secret has no known shape.
_DROPPED_BEFORE_CUT: Final = 128

#: The names of environment variables that contain secrets. And the least length of a
#: secret: shorter values are words, which many messages contain.
_SECRET_NAME: Final = re.compile(
    r"(?i)key|token|secret|passw|credential|auth|private|cookie|dsn|salt"
)
_MIN_SECRET_LENGTH: Final = 12
_known: list[str] = []
_extra: list[tuple[str, re.Pattern[str]]] = []


def learn_secrets(environ: Mapping[str, str]) -> None:
    """Read the secrets of this process from its environment, to mask them everywhere.

    Call it once in each process, before the first log line. A path is not a secret.
    `PIECEWORK_REDACT=all` masks the numbers of persons and accounts, too.
    """
    upper = {name.upper(): value for name, value in environ.items()}
    masks_all = upper.get("PIECEWORK_REDACT") == "all"
    _extra[:] = [("personal number", _PERSONAL)] if masks_all else []
    _known[:] = sorted(
        {
            value
            for name, value in environ.items()
            if _SECRET_NAME.search(name)
            and len(value) >= _MIN_SECRET_LENGTH
            and not value.startswith("/")
        },
        key=len,
        reverse=True,
    )
    _cleaned.cache_clear()


def shortened(text: str, limit: int) -> str:
    """Return the beginning of a text, redacted first and then cut.

    After a cut, half a secret would have no known shape. Only the first `READ_LIMIT`
    characters are read. Lone surrogates, which DynamoDB refuses, become `?`.
    """
    clean = _cleaned(text[:READ_LIMIT].encode(errors="replace").decode())
    if len(text) > READ_LIMIT:
        clean = clean[:-_DROPPED_BEFORE_CUT]
    cut = len(clean) > limit or len(text) > READ_LIMIT
    return clean[: limit - 1] + "…" if cut else clean


@lru_cache(maxsize=16)
def _cleaned(text: str) -> str:
    """Redact a text once: the same failure is shortened several times in a row."""
    return redact(text)


def redact(text: str) -> str:
    """Return the text with each secret replaced by a mask that names its kind."""
    for secret in _known:
        text = text.replace(secret, _MASK.format("secret"))
    text = _QUERY.sub(rf"\1{_MASK.format('query')}", text)
    for name, shape in (*_SHAPES, *_extra):
        text = shape.sub(_MASK.format(name), text)
    return _CARD.sub(_mask_card, text)


def _mask_card(match: re.Match[str]) -> str:
    """Mask a run of digits only if its check digit fits: few long numbers are cards."""
    run = match.group()
    digits = [int(character) for character in run if character.isdigit()]
    return _MASK.format("card") if _passes_luhn(digits) else run


def _passes_luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, _LUHN_BASE)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % _LUHN_BASE == 0
