"""Tell this machine from the rest of the world, so that `down` never reaches AWS."""

from __future__ import annotations

from collections.abc import Mapping

from piecework.endpoint import is_loopback
from piecework.errors import UsageError


def refuse_remote(environ: Mapping[str, str]) -> None:
    """Raise when an AWS endpoint variable points away from this machine."""
    for name, url in sorted(environ.items()):
        if name.startswith("AWS_ENDPOINT_URL") and url and not is_loopback(url):
            raise UsageError(
                f"{name} is {url}, which is not this machine.",
                code="embedded.endpoint.not_loopback",
                next_step=f"unset {name}, or use a loopback address",
                endpoint=url,
            )
