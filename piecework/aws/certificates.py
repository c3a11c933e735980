"""Sessions of the SDK whose clients check that a certificate is of their host.

aiobotocore omits two checks of botocore. It does not check the host name, so any valid
certificate passes. Behind a proxy it does not check the certificate at all.
"""

from __future__ import annotations

import ssl
from typing import Any

from aiobotocore.session import AioSession

from piecework.aws.login import read_logins
from piecework.aws.transport.genuine import require_genuine
from piecework.aws.transport.trusting import share_context
from piecework.aws.trust import mend_client

# ruff: noqa: SLF001 -- aiobotocore has no setting for either


class CheckedSession(AioSession):
    """A session whose clients check who answers, and reach this machine directly."""

    async def _create_client(self, *args: Any, **kwargs: Any) -> Any:
        return checked(await super()._create_client(*args, **kwargs))  # type: ignore[misc]

    def client(self, service_name: str, **arguments: Any) -> Any:
        """Return a client of a service, to be entered with `async with`."""
        create: Any = self.create_client  # its types name each service of AWS
        return create(service_name, **arguments)

    @property
    def region_name(self) -> str | None:
        """The region of its clients; None: the SDK finds none."""
        region: str | None = self.get_config_variable("region")
        return region


def new_session(
    region_name: str | None = None,
    profile_name: str | None = None,
    *,
    ignore_profile: bool = False,
) -> CheckedSession:
    """Return a session.

    Args:
        region_name: The region of its clients; default: the SDK's configuration.
        profile_name: The profile; default: the SDK's own choice.
        ignore_profile: Read neither the user's profile nor the configuration file.

    Raises:
        botocore.exceptions.ConfigParseError: The configuration cannot be read.
    """
    nothing = (None, None, None, None)
    unread = {"profile": nothing, "config_file": nothing} if ignore_profile else None
    session = CheckedSession(unread, profile=profile_name)
    if region_name is not None:
        session.set_config_variable("region", region_name)
    if not ignore_profile:
        read_logins(session)
    return session


def checked(client: Any) -> Any:
    """Make a client that has sent no request yet check who answers; return it.

    Raises:
        AttributeError: The internals of the SDK have changed. It is safer to fail than
            to use a client that trusts every host.
    """
    mend_client(client)
    check_certificates(client)
    share_context(client)
    require_genuine(client)
    return client


def check_certificates(client: Any) -> None:
    """Make a client that has sent no request yet check certificates.

    Raises:
        AttributeError: The internals of the SDK have changed.
    """
    http = client._endpoint.http_session
    make, behind_proxy = http._get_ssl_context, http._setup_proxy_ssl_context

    def checking() -> ssl.SSLContext:
        context: ssl.SSLContext = make()
        context.check_hostname = True
        return context

    http._get_ssl_context = checking
    http._setup_proxy_ssl_context = lambda proxy: behind_proxy(proxy) or checking()
