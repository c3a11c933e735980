"""What the thin path takes from inside an SDK client: all of it is named here.

It has no promise to stay as it is. A client that is put together differently is used
as it comes, without the thin path.
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

# ruff: noqa: SLF001 -- this is the one place that looks inside


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
        context.check_hostname = True  # see `piecework.aws.endpoint`
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


# The events of an SDK client, told to those who listen as the SDK's own emitter does.
#
# Each request has three. The emitter finds out anew each time who listens, and asks of
# each answer whether it is to be awaited; two of its own listeners do nothing for most
# operations. All of that costs more than what our listeners count.

# ruff: noqa: SLF001 -- it looks where the SDK keeps who listens


Hearer: TypeAlias = Callable[..., Any]


class Events:
    """The events of one client.

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
        #: The SDK begins a new one whenever somebody begins or ends to listen.
        self._of: Any = self._emitter._lookup_cache
        self._known: dict[tuple[str, str], tuple[str, Sequence[Hearer]]] = {}

    async def tell(self, event: str, model: Any, /, **said: Any) -> list[Any]:
        """Tell of an operation's event; return who heard it, each with its answer."""
        if self._emitter._lookup_cache is not self._of:
            self._of, self._known = self._emitter._lookup_cache, {}
        known = self._known.get((event, model.name))
        name, hearers = known or self._find(event, model)
        answers = []
        for hear in hearers:
            answer = hear(**said, event_name=name)
            if answer is not None and isawaitable(answer):
                answer = await answer
            answers.append((hear, answer))
        return answers

    def _find(self, event: str, model: Any) -> tuple[str, Sequence[Hearer]]:
        """Find out who listens, and remember it."""
        name = self._alias(f"{event}.{self._service}.{model.name}")
        found = self._emitter._handlers.prefix_search(name)
        idle = self._idle(model)
        hearers = [hear for hear in found if hear not in idle]
        self._known[event, model.name] = name, hearers
        return name, hearers

    def _idle(self, model: Any) -> list[Hearer]:
        """Return which listeners of the SDK's do nothing for an operation."""
        idle = []
        if not model.idempotent_members:
            idle.append(self._fills_token)
        if "requestValidationModeMember" not in model.http_checksum:
            idle.append(self._sets_mode)
        return idle
