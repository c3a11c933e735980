"""Refuse endpoints outside this machine, so that `down` never reaches AWS."""

from __future__ import annotations

from collections.abc import Mapping

from piecework.endpoint import is_loopback
from piecework.errors import UsageError


def refuse_remote(environ: Mapping[str, str]) -> None:
    """Raise if an AWS endpoint variable names another machine.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`.
    """
    for name, url in sorted(environ.items()):
        if name.startswith("AWS_ENDPOINT_URL") and url and not is_loopback(url):
            raise UsageError(
                f"{name} is {url}, which is not an address of this machine.",
                code="embedded.endpoint.not_loopback",
                next_step=f"Unset {name}, or set it to a loopback address.",
                endpoint=url,
            )
