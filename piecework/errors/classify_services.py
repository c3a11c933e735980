"""Errors of gRPC, of databases, of certificates and of process pools."""

from __future__ import annotations

from typing import Final

from piecework.errors.causes import causes, library_name, mro, type_names
from piecework.errors.verdict import Verdict

# ── certificates ──────────────────────────────────────────────────────────────

_UNTRUSTED: Final = frozenset(
    {
        ("aiohttp", "ClientConnectorCertificateError"),
        ("aiohttp", "ServerFingerprintMismatch"),
        ("ssl", "SSLCertVerificationError"),
    }
)
#: What libraries raise for a certificate, and for a connection that TLS broke off.
_TLS: Final = frozenset({("botocore", "SSLError"), ("requests", "SSLError")})


def from_certificate(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by the cause: a certificate that is not trusted stays so."""
    links = causes(error)
    names = [{library_name(each) for each in mro(link)} for link in links]
    untrusted = any(each & _UNTRUSTED for each in names)
    in_library = bool(names[0] & _TLS)
    if in_library and not untrusted:
        untrusted = not any(("ssl", "SSLError") in each for each in names[1:])
    if not untrusted:
        return None
    in_aws = layer == "tool" and library_name(type(error))[0] == "botocore"
    code = "aws.endpoint.untrusted" if in_aws else f"{layer}.connection.untrusted"
    return Verdict(code)


# ── process pools ─────────────────────────────────────────────────────────────


def from_process_pool(
    error: BaseException, _layer: str, _now: float | None
) -> Verdict | None:
    """Classify the death of a process that the called function used."""
    broken = ("concurrent", "BrokenExecutor")
    if broken not in {library_name(each) for each in mro(error)}:
        return None
    return Verdict("runtime.pool.broken")


# ── databases ─────────────────────────────────────────────────────────────────

#: The lower byte of SQLite's result codes: BUSY, LOCKED, INTERRUPT, IOERR, CANTOPEN,
#: PROTOCOL.
_SQLITE: Final = frozenset({5, 6, 9, 10, 14, 15})
#: Classes of SQLSTATE: connection, rollback, resources, not in its state, an operator
#: intervened, the system.
_SQLSTATES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
_SQLSTATE_LENGTH: Final = 5


def from_database(
    error: BaseException, _layer: str, _now: float | None
) -> Verdict | None:
    """Classify by SQLSTATE or SQLite's code, else by the type of PEP 249.

    An OperationalError without a code is one of the connection.
    """
    busy = Verdict("tool.database.busy")
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state) == _SQLSTATE_LENGTH:
            return busy if state[:2] in _SQLSTATES else None
    if "OperationalError" not in type_names(error):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    is_busy = not isinstance(code, int) or code & 0xFF in _SQLITE
    return busy if is_busy else None


# ── gRPC ──────────────────────────────────────────────────────────────────────

# The code of gRPC -> ours, and the status if the server certainly refused the call.
# RESOURCE_EXHAUSTED has none: the client raises it for an answer that is too large.
_GRPC: Final = {
    "ABORTED": ("http.503_unavailable", None),
    "ALREADY_EXISTS": ("http.409_conflict", 409),
    "CANCELLED": ("connection.failed", None),
    "DATA_LOSS": ("http.500_server_error", None),
    "DEADLINE_EXCEEDED": ("connection.timeout", None),
    "FAILED_PRECONDITION": ("http.400_bad_request", 400),
    "INTERNAL": ("http.500_server_error", None),
    "INVALID_ARGUMENT": ("http.400_bad_request", 400),
    "NOT_FOUND": ("http.404_not_found", 404),
    "OUT_OF_RANGE": ("http.400_bad_request", 400),
    "PERMISSION_DENIED": ("http.403_forbidden", 403),
    "RESOURCE_EXHAUSTED": ("http.429_rate_limited", None),
    "UNAUTHENTICATED": ("http.401_unauthenticated", 401),
    "UNAVAILABLE": ("http.503_unavailable", None),
    "UNIMPLEMENTED": ("http.404_not_found", 404),
    "UNKNOWN": ("http.500_server_error", None),
}


def from_grpc(error: BaseException, layer: str, _now: float | None) -> Verdict | None:
    """Classify by the method `code` of an error, which returns a status with a name."""
    method = getattr(type(error), "code", None)
    if not callable(method):
        return None
    try:
        name = getattr(method(error), "name", None)
    except Exception:  # noqa: BLE001 -- a method of another library
        return None
    if not isinstance(name, str) or name not in _GRPC:
        return None
    detail, status = _GRPC[name]
    return Verdict(f"{layer}.{detail}", http_status=status, provider_code=name)
