"""Which addresses a webhook may have: no door into the network of the reconciler.

Only the reconciler can reach the metadata of its machine, and private services. An
operator who may set a webhook must not reach them. So a name is resolved by this
module, and the connection goes to the addresses that were checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias
from urllib.parse import urlsplit

from piecework.domain.webhook import REFERENCE, VARIABLES
from piecework.errors import UsageError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

#: Hosts that may be reached without TLS: this machine, for tests and for development.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: An IPv6 address that stands for the IPv4 address in its last 32 bits.
TRANSLATED = ip_network("64:ff9b::/96")
#: The shortest secret of a signature, in characters.
MIN_SECRET = 24


def read_reference(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a text, or the variable that it refers to.

    Raises:
        UsageError: `webhook.variable.missing`: this process lacks the variable, or it
            is not a variable of webhooks.
    """
    if not text.startswith(REFERENCE):
        return text
    name = text.removeprefix(REFERENCE)
    found = environ.get(name, "") if name.startswith(VARIABLES) else ""
    if not found:
        message = f"The process has no variable {name}."
        raise UsageError(message, code="webhook.variable.missing")
    return found


def check_url(url: str, networks: Sequence[Network] = ()) -> str:
    """Return the host of a URL that a webhook may have.

    Raises:
        UsageError: `webhook.address.refused`.
    """
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise refused("it is not a URL") from error
    if parts.username or parts.password:
        raise refused("it has a user or a password")
    if not host or parts.scheme not in ("https", "http"):
        raise refused("it is not an https:// URL")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise refused("it is not encrypted: only https:// leaves this machine")
    literal = literal_address(host)
    if literal is not None and host not in LOOPBACK and not is_open(literal, networks):
        raise refused("it is a private address")
    return host


def literal_address(host: str) -> Address | None:
    """Return the address that a host is; None: it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_open(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Return whether an address is public, or in one of the allowed networks.

    Link-local addresses never are: there the credentials of a task are served.
    """
    inner = embedded(address)
    if inner is not None:
        return is_open(inner, networks)
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    return address.is_global or any(address in network for network in networks)


def embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return None
    if address in TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def read_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of the setting `webhook_networks`.

    Raises:
        UsageError: `config.setting.invalid`.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return tuple(ip_network(word) for word in words)
    except ValueError as error:
        message = "webhook_networks must hold networks such as 10.0.0.0/8."
        raise UsageError(message, code="config.setting.invalid") from error


def refused(reason: str) -> UsageError:
    """Return the error of an address; it never quotes the address, which may be secret.

    The path of a Slack webhook is a secret.
    """
    message = f"The address of the webhook is refused: {reason}."
    return UsageError(message, code="webhook.address.refused")
