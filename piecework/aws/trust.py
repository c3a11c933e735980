"""Send to this machine directly, and say why TLS failed.

A proxy is for other machines: one that is set must not stand between a command and the
embedded AWS. A failure of TLS has three causes that a user can mend: the certificate,
the bundle of trusted certificates, and the clock.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from piecework.aws.endpoint import is_loopback
from piecework.errors import UsageError
from piecework.errors.causes import causes

# ruff: noqa: SLF001 -- the SDK has no setting for a proxy by address

#: The variables that name the bundle of trusted certificates; the first counts.
BUNDLE_VARIABLES: Final = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
#: Results of OpenSSL's check of a certificate.
NOT_YET_VALID, EXPIRED, OTHER_HOST = 9, 10, {62, 64}
#: What OpenSSL says of an answer that is not TLS.
NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


def mend_client(client: Any, environ: Mapping[str, str] = os.environ) -> None:
    """Make a client that has sent no request yet bypass proxies to this machine.

    Raises:
        UsageError: `config.setting.invalid`: the bundle of certificates is not a file.
        AttributeError: The internals of the SDK have changed.
    """
    url, http = str(client.meta.endpoint_url), client._endpoint.http_session
    if is_loopback(url):
        from botocore.httpsession import ProxyConfiguration

        http._proxy_config = ProxyConfiguration(proxies={})
        if url.startswith("http:"):
            http._verify = bool(http._verify)  # no certificate is checked
            return
    if isinstance(http._verify, str):
        require_bundle(http._verify, environ)


def require_bundle(path: str, environ: Mapping[str, str]) -> None:
    """Raise if a bundle of certificates cannot be read.

    Raises:
        UsageError: `config.setting.invalid`.
    """
    named = (name for name in BUNDLE_VARIABLES if environ.get(name) == path)
    where = next(named, "`ca_bundle` of the AWS configuration file")
    try:
        is_folder = Path(path).is_dir()
        if not is_folder:
            ssl.create_default_context(cafile=path)
    except FileNotFoundError as error:
        problem = f"{where} names {path}, which does not exist."
        raise _bundle_error(problem, where) from error
    except ssl.SSLError as error:
        problem = f"{where} names {path}, which has no certificate."
        raise _bundle_error(problem, where) from error
    except OSError as error:
        problem = f"{where} names {path}, which cannot be read: {error.strerror}."
        raise _bundle_error(problem, where) from error


def _bundle_error(problem: str, where: str) -> UsageError:
    step = f"Correct the path, or unset {where}: then the SDK's own bundle counts."
    return UsageError(problem, code="config.setting.invalid", next_step=step)


def tls_error(
    error: BaseException,
    where: str,
    now: float,
    environ: Mapping[str, str] = os.environ,
) -> UsageError | None:
    """Return why TLS failed, and the next step; None: it did not.

    `now`: seconds since 1970, as this machine's clock says.
    """
    links = causes(error)
    found = next((each for each in links if isinstance(each, ssl.SSLError)), None)
    code = "aws.endpoint.untrusted"
    if isinstance(found, ssl.SSLCertVerificationError):
        message = f"The certificate of {where} is not trusted: {found.verify_message}."
        step = _step(found.verify_code, now, environ)
        return UsageError(message, code=code, next_step=step)
    if found is not None and found.reason in NOT_TLS:
        message = f"{where} does not answer with TLS."
        step = "Check https:// in AWS_ENDPOINT_URL, and the proxy in HTTPS_PROXY."
        return UsageError(message, code=code, next_step=step)
    return None


def _step(verify_code: int, now: float, environ: Mapping[str, str]) -> str:
    if verify_code in {EXPIRED, NOT_YET_VALID}:
        clock = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
        return f"The clock of this machine says {clock}: correct it if that is wrong."
    if verify_code in OTHER_HOST:
        return "It is for another host: check AWS_ENDPOINT_URL and HTTPS_PROXY."
    named = next((name for name in BUNDLE_VARIABLES if environ.get(name)), "")
    if named:
        return f"Add the issuer's certificate to {environ[named]} ({named})."
    return "If a proxy or a private endpoint has its own CA, set AWS_CA_BUNDLE to it."
