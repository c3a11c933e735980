"""The log of a program that never set one up: nothing is said."""

from __future__ import annotations

import logging
from typing import cast

import structlog


def quiet_log() -> structlog.stdlib.BoundLogger:
    """Return the logger that the user configured; without one, nothing is logged.

    structlog left to itself prints every debug line to stdout.
    """
    if structlog.is_configured():
        return cast("structlog.stdlib.BoundLogger", structlog.get_logger())
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    log = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=silent)
    return cast("structlog.stdlib.BoundLogger", log)
