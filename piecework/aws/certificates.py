"""Sessions of the SDK whose clients check that a certificate is of their host.

aiobotocore omits two checks of botocore. It does not check the host name, so any valid
certificate passes. Behind a proxy it does not check the certificate at all.
"""

from __future__ import annotations

import ssl
from typing import Any

import aioboto3
from aiobotocore.session import AioSession

from piecework.aws.transport.genuine import require_genuine
from piecework.aws.trust import mend_client

# ruff: noqa: SLF001 -- aiobotocore has no setting for either


class CheckedSession(AioSession):
    """A session whose clients check who answers, and reach this machine directly."""

    async def _create_client(self, *args: Any, **kwargs: Any) -> Any:
        client = await super()._create_client(*args, **kwargs)  # type: ignore[misc]
        mend_client(client)
        check_certificates(client)
        require_genuine(client)
        return client


def new_session(*, ignore_profile: bool = False, **arguments: Any) -> aioboto3.Session:
    """Return a session of aioboto3 for the given region, keys and so on.

    Args:
        ignore_profile: Read neither the user's profile nor the configuration file.
        arguments: As for `aioboto3.Session`.
    """
    nothing = (None, None, None, None)
    unread = {"profile": nothing, "config_file": nothing} if ignore_profile else None
    core = CheckedSession(unread)
    return aioboto3.Session(botocore_session=core, **arguments)


def check_certificates(client: Any) -> None:
    """Make a client that has sent no request yet check certificates.

    Raises:
        AttributeError: The internals of the SDK have changed. It is safer to fail than
            to use a client that trusts every host.
    """
    http = client._endpoint.http_session
    make, behind_proxy = http._get_ssl_context, http._setup_proxy_ssl_context

    def checking() -> ssl.SSLContext:
        context: ssl.SSLContext = make()
        context.check_hostname = True
        return context

    http._get_ssl_context = checking
    http._setup_proxy_ssl_context = lambda proxy: behind_proxy(proxy) or checking()
