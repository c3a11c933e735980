"""Make a client of the SDK verify the certificate of its host.

aiobotocore omits two checks of botocore. It does not check the host name, so any valid
certificate passes. Behind a proxy it does not check the certificate at all.
"""

# ruff: noqa: SLF001 -- aiobotocore has no setting for either

from __future__ import annotations

import ssl
from typing import Any


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
