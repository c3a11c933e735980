"""All private parts of an SDK client that the thin transport uses.

The SDK does not promise to keep them. A client without one of them is used directly.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from aiobotocore.httpsession import AIOHTTPSession
from botocore import handlers
from botocore.httpsession import get_cert_path

from piecework.aws.transport.request import Route
from piecework.aws.transport.trusting import trusting

# ruff: noqa: SLF001 -- only this module uses private parts


class Sdk:
    """An SDK client with its private parts.

    Raises:
        AttributeError: This version of the SDK does not have a part.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.meta = client.meta
        self.service = str(client.meta.service_model.service_id.hyphenize())
        self.emit = Events(client.meta.events, self.service).emit
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
        self.verify = http._verify
        self.own_certificate = http._cert_file
        self.proxy_for = http._proxy_config.proxy_url_for

    def unsupported_reason(self) -> str:
        """Return why the SDK must send everything itself, or ""."""
        reasons = {
            "its protocol is not JSON": self.meta.service_model.resolved_protocol
            != "json",
            "it limits its own rate": self.retry_mode == "adaptive",
            "there are no credentials": self.credentials is None,
            "its HTTP session is another": self.http_kind is not AIOHTTPSession,
            "certificates are not checked": not self.verify,
            "it shows a certificate": bool(self.own_certificate),
            "a proxy is configured": bool(self.proxy_for(self.meta.endpoint_url)),
        }
        return next((reason for reason, found in reasons.items() if found), "")

    def model(self, operation: str) -> Any:
        """Return the service's model of an operation."""
        return self.meta.service_model.operation_model(operation)

    def tls_context(self) -> ssl.SSLContext:
        """Return a context that checks certificates and host names."""
        return trusting(get_cert_path(self.verify))

    async def route(
        self, operation: str, params: dict[str, Any], credentials: Any
    ) -> Route | None:
        """Return the route of an operation; None if the SDK has to send it.

        The SDK computes it for each request from rules, settings and the account. We
        name tables, never by ARN, so the route depends on the credentials only.
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


Listener: TypeAlias = Callable[..., Any]


class Events:
    """Emits the events of one client to its listeners, as the SDK's emitter does.

    A request has three events. The SDK's emitter searches the listeners each time, and
    two of its own do nothing for most operations. That costs more than the work of our
    listeners, so this class caches the search and omits the idle ones.

    Raises:
        AttributeError: The SDK keeps its listeners elsewhere.
    """

    def __init__(self, events: Any, service: str) -> None:
        self._alias = events._alias_event_name
        self._emitter = events._emitter
        self._service = service
        own: Any = handlers
        self._fills_token = own.generate_idempotent_uuid
        self._sets_mode = own._handle_request_validation_mode_member
        #: The SDK replaces its cache when a listener is registered or unregistered.
        self._sdk_cache: Any = self._emitter._lookup_cache
        self._cache: dict[tuple[str, str], tuple[str, Sequence[Listener]]] = {}

    async def emit(self, event: str, model: Any, /, **fields: Any) -> list[Any]:
        """Call the listeners; return each with its result, in order."""
        if self._emitter._lookup_cache is not self._sdk_cache:
            self._sdk_cache, self._cache = self._emitter._lookup_cache, {}
        cached = self._cache.get((event, model.name))
        name, listeners = cached or self._find(event, model)
        results = []
        for listener in listeners:
            result = listener(**fields, event_name=name)
            if result is not None and isawaitable(result):
                result = await result
            results.append((listener, result))
        return results

    def _find(self, event: str, model: Any) -> tuple[str, Sequence[Listener]]:
        """Find the listeners of an operation's event, and cache them."""
        name = self._alias(f"{event}.{self._service}.{model.name}")
        found = self._emitter._handlers.prefix_search(name)
        idle = self._idle_listeners(model)
        listeners = [listener for listener in found if listener not in idle]
        self._cache[event, model.name] = name, listeners
        return name, listeners

    def _idle_listeners(self, model: Any) -> list[Listener]:
        """Return the SDK's own listeners that do nothing for an operation."""
        idle = []
        if not model.idempotent_members:
            idle.append(self._fills_token)
        if "requestValidationModeMember" not in model.http_checksum:
            idle.append(self._sets_mode)
        return idle
