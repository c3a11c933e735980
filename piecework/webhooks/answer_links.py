"""Links by which a person answers one question, for an HTTP endpoint of yours.

A link names one question, and answers nothing after its end. Its signature is
HMAC-SHA256 (RFC 2104) over all that it says. So only a process with the secret can make
or change one. It does not identify a person: everyone with the link may answer.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from piecework.domain.webhook import REFERENCE, VARIABLES
from piecework.errors import UsageError
from piecework.settings import Settings
from piecework.webhooks.address import read_reference

#: The first part of a token: what is signed, and how.
VERSION: Final = "a1"
#: The variable with the secret of the links that Piecework itself makes.
SECRET: Final = f"{REFERENCE}{VARIABLES}ANSWER_SECRET"
#: The query parameter of a link.
PARAMETER: Final = "answer"
#: A shorter secret could be guessed.
MIN_SECRET: Final = 32
#: The longest name of a person: that of an address of mail (RFC 5321, 4.5.3.1.3).
MAX_NAME: Final = 254


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """What a link says: one question, which was asked at one time.

    Attributes:
        to: The person to whom the link was given; the record names it as the actor.
    """

    job: str
    chunk: int
    stage: str
    question: str
    asked_at: str
    to: str = ""


@dataclass(frozen=True, slots=True)
class AnswerLinks:
    """Makes the links of an endpoint, and reads them.

    Attributes:
        secret: At least 32 characters; each process that makes or reads links needs it.
        url: The address of your endpoint.
        tenant: The tenant of the jobs; a link of another one is refused.

    Raises:
        UsageError: `approval.link.invalid`: the secret is short, or the address is not
            one of the web.
    """

    secret: str = field(repr=False)
    url: str
    tenant: str = "default"

    def __post_init__(self) -> None:
        """Refuse a secret that could be guessed, and an address without a host."""
        if len(self.secret) < MIN_SECRET:
            message = f"The secret of links is shorter than {MIN_SECRET} characters."
            raise UsageError(message, code="approval.link.invalid")
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query:
            message = "The address of the endpoint is not http(s)://HOST/PATH."
            raise UsageError(message, code="approval.link.invalid")

    @classmethod
    def configured(cls, settings: Settings) -> AnswerLinks | None:
        """Return the links of the setting `answer_url`; None: it is not set.

        Raises:
            UsageError: `webhook.variable.missing`: this process has no
                `PIECEWORK_WEBHOOK_ANSWER_SECRET`; `approval.link.invalid`.
        """
        if not settings.answer_url:
            return None
        return cls(read_reference(SECRET), settings.answer_url, settings.tenant)

    def link(self, question: Mapping[str, Any], to: str = "") -> str:
        """Return the link to a question.

        Args:
            question: A question as `client.approvals()` and `job.question()` return it.
            to: The person who gets the link, in at most 254 printable characters.

        Raises:
            UsageError: `approval.link.invalid`: `to` cannot be a name in a record.
        """
        if len(to) > MAX_NAME or not to.isprintable():
            message = f"A person's name has at most {MAX_NAME} printable characters."
            raise UsageError(message, code="approval.link.invalid")
        names = ("job", "chunk", "stage", "question", "asked_at")
        says = AnswerLink(**{name: question[name] for name in names}, to=to)
        text = json.dumps(asdict(says), separators=(",", ":"), sort_keys=True)
        signed = f"{VERSION}.{_encode(text.encode())}"
        token = f"{signed}.{self._sign(signed)}"
        return f"{self.url}?{urlencode({PARAMETER: token})}"

    def read(self, token: str) -> AnswerLink:
        """Return what the token of a link says, also after its question has ended.

        An ended question cannot be answered: `client.answer_link` refuses it with what
        was decided, and `client.linked_question` shows it.

        Args:
            token: The value of the link's query parameter `answer`.

        Raises:
            UsageError: `approval.link.invalid`: the token was not made with this
                secret for this tenant, or by another version.
        """
        signed, _, signature = token.rpartition(".")
        version, _, content = signed.partition(".")
        is_genuine = token.isascii() and hmac.compare_digest(
            signature, self._sign(signed)
        )
        if not is_genuine or version != VERSION:
            message = "The link was not made by this endpoint, or it was changed."
            raise UsageError(message, code="approval.link.invalid")
        return AnswerLink(**json.loads(_decode(content)))

    def _sign(self, signed: str) -> str:
        content = f"{self.tenant}.{signed}".encode()
        return _encode(hmac.digest(self.secret.encode(), content, hashlib.sha256))


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
