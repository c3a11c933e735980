"""Adapters of the AWS services: queue, objects, endpoint, and the thin transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aioboto3


def session(
    *, region_name: str | None = None, profile_name: str | None = None
) -> aioboto3.Session:
    """Return a session of aioboto3 for your own calls of AWS services.

    Its clients refuse a certificate of another host. Those of a plain
    `aioboto3.Session` accept any that a trusted authority has signed.

    Args:
        region_name: The default is `AWS_REGION`, then the SDK's own configuration.
        profile_name: The default is the SDK's own choice.
    """
    import os

    from piecework.aws.certificates import new_session

    region = region_name or os.environ.get("AWS_REGION") or None
    return new_session(region_name=region, profile_name=profile_name)


__all__ = ["session"]
