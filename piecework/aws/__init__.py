"""Adapters of the AWS services: queue, objects, endpoint, and the thin transport."""

from __future__ import annotations

from typing import Any, Protocol


class AwsSession(Protocol):
    """What Piecework uses of a session: that of `session()`, or one of aioboto3."""

    @property
    def region_name(self) -> str | None:
        """The region of its clients."""

    def client(self, service_name: str, **arguments: Any) -> Any:
        """Return a client of a service, to be entered with `async with`."""


def session(
    *, region_name: str | None = None, profile_name: str | None = None
) -> AwsSession:
    """Return a session for your own calls of AWS services.

    Its clients are those of aiobotocore, and refuse a certificate of another host. The
    clients of a plain session accept any that a trusted authority has signed.

    Args:
        region_name: The default is `AWS_REGION`, then the SDK's own configuration.
        profile_name: The default is the SDK's own choice.
    """
    import os

    from piecework.aws.certificates import new_session

    region = region_name or os.environ.get("AWS_REGION") or None
    return new_session(region, profile_name)


__all__ = ["AwsSession", "session"]
