"""What the thin path takes from inside an SDK client: all of it is named here.

It has no promise to stay as it is. A client that is put together differently is used
as it comes, without the thin path.
"""

# ruff: noqa: SLF001 -- this is the one place that looks inside

from __future__ import annotations

import ssl
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from botocore.httpsession import get_cert_path

from piecework.wire.events import Events
from piecework.wire.route import Route


class Sdk:
    """An SDK client, opened up.

    Raises:
        AttributeError: It is not made as the one that this was written for.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.meta = client.meta
        self.service = str(client.meta.service_model.service_id.hyphenize())
        self.tell = Events(client.meta.events, self.service).tell
        self.parser = client._response_parser
        self.retry_mode = (client.meta.config.retries or {}).get("mode")
        self.resolve_endpoint = client._resolve_endpoint_ruleset
        self.convert = client._convert_to_request_dict
        self.credentials = client._request_signer._credentials
        self.choose_signer = client._request_signer._choose_signer
        self.region = client._request_signer._region_name
        self.signing_name = client._request_signer._signing_name
        self.endpoint = client._endpoint
        self.note_attempt = client._endpoint._update_retries_context
        self.add_error_fields = client._endpoint._add_modeled_error_fields
        http = client._endpoint.http_session
        self.http_kind = type(http)
        self.make_tls = http._get_ssl_context
        self.verify = http._verify
        self.own_certificate = http._cert_file
        self.proxy_for = http._proxy_config.proxy_url_for

    def doubt(self) -> str:
        """Return why the SDK had better send everything itself; empty: it need not."""
        doubts = {
            "its protocol is not JSON": self.meta.service_model.resolved_protocol
            != "json",
            "it limits its own rate": self.retry_mode == "adaptive",
            "there are no credentials": self.credentials is None,
            "its HTTP session is another": self.http_kind is not AIOHTTPSession,
            "certificates are not checked": not self.verify,
            "it shows a certificate": bool(self.own_certificate),
            "a proxy is configured": bool(self.proxy_for(self.meta.endpoint_url)),
        }
        return next((reason for reason, found in doubts.items() if found), "")

    def model(self, operation: str) -> Any:
        """Return how the service describes an operation."""
        return self.meta.service_model.operation_model(operation)

    def tls(self) -> ssl.SSLContext:
        """Return what checks a certificate as the SDK should."""
        context: ssl.SSLContext = self.make_tls()
        context.check_hostname = True  # see `piecework.trust`
        context.load_verify_locations(get_cert_path(self.verify))
        return context

    async def route(
        self, operation: str, params: dict[str, Any], credentials: Any
    ) -> Route | None:
        """Return where an operation goes and as what; None: the SDK has to send it.

        The SDK works this out for each request from rules, settings and the account.
        Tables are named, never given by ARN: it depends on the credentials alone.
        """
        model = self.model(operation)
        context: dict[str, Any] = {
            "client_region": self.meta.region_name,
            "client_config": self.meta.config,
            "auth_type": model.resolved_auth_type,
            "auth_options": self.meta.service_model.metadata.get("auth"),
        }
        endpoint, extra, _ = await self.resolve_endpoint(model, params, context)
        request = await self.convert(params, model, endpoint, context, extra)
        if await self.choose_signer(operation, "standard", context) != "v4":
            return None
        scope = context.get("signing") or {}
        region = scope.get("region") or self.region
        name = scope.get("signing_name") or self.signing_name
        try:
            return Route(request["url"], request["headers"], credentials, region, name)
        except ValueError:
            return None
