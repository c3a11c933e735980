"""The contexts of TLS, which all clients of a process share.

Reading the trusted certificates takes 30 ms of CPU, which a worker would spend before
the first call of its first job.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import Any

from botocore.httpsession import create_urllib3_context, get_cert_path

# ruff: noqa: SLF001 -- the SDK makes a context for each client


@cache
def trusting(bundle: str) -> ssl.SSLContext:
    """Return the context that trusts a bundle, and checks host names."""
    context: ssl.SSLContext = create_urllib3_context()
    context.check_hostname = True
    context.load_verify_locations(bundle)
    return context


def share_context(client: Any) -> None:
    """Let a client that has sent no request yet use the shared context.

    A client with a certificate of its own, or behind a proxy, changes its context. So
    it keeps one for itself, as does one that checks nothing. A client without TLS gets
    one that trusts no server.
    """
    http, url = client._endpoint.http_session, str(client.meta.endpoint_url)
    build = getattr(http, "_build_verify_context", None)
    if build is None:
        return  # this version of the SDK has no such part
    proxied = http._proxy_config.proxy_url_for(url)

    def shared() -> ssl.SSLContext:
        context: ssl.SSLContext
        if not http._verify or http._cert_file or proxied:
            context = build()
        elif url.startswith("http:"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            context = trusting(get_cert_path(http._verify))
        return context

    http._build_verify_context = shared
