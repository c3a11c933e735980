"""Let a client of the SDK speak to none but the host that it asks.

aiobotocore leaves out two looks at certificates that botocore takes: at the name in
one, so that anybody's would do, and behind a proxy at all of it.
"""

# ruff: noqa: SLF001 -- there is no setting for either

from __future__ import annotations

import ssl
from typing import Any


def check_certificates(client: Any) -> None:
    """Let a client that has sent nothing yet check whom it speaks to.

    Raises:
        AttributeError: It is not made as the one that this was written for; better
            no client than one that trusts anybody.
    """
    http = client._endpoint.http_session
    make, behind_proxy = http._get_ssl_context, http._setup_proxy_ssl_context

    def checking() -> ssl.SSLContext:
        context: ssl.SSLContext = make()
        context.check_hostname = True
        return context

    http._get_ssl_context = checking
    http._setup_proxy_ssl_context = lambda proxy: behind_proxy(proxy) or checking()
