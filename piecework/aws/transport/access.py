"""Find region, address and keys without the SDK, where its rules cannot matter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from piecework.aws.endpoint import Endpoint, is_loopback

#: The variables with which the SDK would send a request elsewhere or sign it otherwise.
SPECIAL_VARIABLES: Final = frozenset(
    {
        "AWS_DEFAULT_PROFILE",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_PROFILE",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    }
)
#: The variables of proxies, which no request to this machine goes through.
PROXY_VARIABLES: Final = frozenset({"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"})
#: The variables with which it would trust another certificate.
CERTIFICATE_VARIABLES: Final = frozenset({"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"})
#: The regions of the public partition; hosts of the others have another domain.
_REGION: Final = re.compile(
    r"(af|ap|ca|eu|il|me|mx|sa|us)-(central|(north|south)?(east|west)?)-[0-9]"
)

# ── the files of the SDK ──────────────────────────────────────────────────────

#: The files, each with the variable that names another one.
CONFIG_FILE: Final = ("AWS_CONFIG_FILE", "~/.aws/config")
KEYS_FILE: Final = ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
#: The settings that change no request; those of the AWS CLI begin with `cli_`.
HARMLESS: Final = frozenset({"region", "output"})
#: The settings of a key that does not expire by itself.
KEY: Final = frozenset(
    {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of an AWS user; the token is empty for a permanent key."""

    access_key: str
    secret_key: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a service, its region, and the keys to sign with."""

    url: str
    region: str
    credentials: Credentials


def find_access(
    endpoint: Endpoint, environ: Mapping[str, str], service: str = "dynamodb"
) -> Access | None:
    """Return the access that the SDK would find; None if only the SDK can tell.

    For the embedded AWS, the endpoint has the keys. For AWS or an endpoint on this
    machine, region and keys are in the environment, or in the default profile. That
    profile may have nothing else.
    """
    special = SPECIAL_VARIABLES | (
        frozenset() if endpoint.loopback else PROXY_VARIABLES
    )
    if special & {name.upper() for name in environ}:
        return None
    if endpoint.source == "embedded":
        keys = Credentials(*endpoint.embedded_keys())
        return Access(endpoint.url, endpoint.region, keys)
    config = default_profile(environ, CONFIG_FILE)
    stored = default_profile(environ, KEYS_FILE)
    if config is None or stored is None or not stored.keys() <= KEY:
        return None
    if any(name not in HARMLESS and not name.startswith("cli_") for name in config):
        return None
    named = {name: environ.get(name.upper(), "") for name in KEY}
    credentials = keys_of(named) or (None if any(named.values()) else keys_of(stored))
    region = endpoint.region or config.get("region", "")
    url = url_of(endpoint, environ, service, region)
    return Access(url, region, credentials) if credentials and url else None


def keys_of(found: Mapping[str, str]) -> Credentials | None:
    """Return the keys that settings or variables have."""
    key = found.get("aws_access_key_id", "")
    secret = found.get("aws_secret_access_key", "")
    token = found.get("aws_session_token", "")
    return Credentials(key, secret, token) if key and secret else None


def url_of(
    endpoint: Endpoint, environ: Mapping[str, str], service: str, region: str
) -> str:
    """Return the address of a service; empty if only the SDK can tell."""
    if not _REGION.fullmatch(region):
        return ""
    whole = environ.get("AWS_ENDPOINT_URL", "")
    url = environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or whole
    if url:
        return url if url.startswith("http://") and is_loopback(url) else ""
    own_certificates = CERTIFICATE_VARIABLES & environ.keys()
    aws = endpoint.source == "aws" and not own_certificates
    return f"https://{service}.{region}.amazonaws.com" if aws else ""


def default_profile(
    environ: Mapping[str, str], place: tuple[str, str]
) -> Mapping[str, str] | None:
    """Return the settings of the default profile in a file; None: ask the SDK."""
    variable, usual = place
    try:
        text = Path(environ.get(variable) or usual).expanduser().read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RuntimeError):
        return None
    if not text.strip():
        return {}
    from configparser import Error, RawConfigParser  # most commands read no file

    parser = RawConfigParser(default_section="")
    try:
        parser.read_string(text)
    except Error:
        return None
    if any(name.split() == ["profile", "default"] for name in parser.sections()):
        return None
    return dict(parser["default"]) if "default" in parser else {}
