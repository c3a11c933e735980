"""The log of a program that has not configured one."""

from __future__ import annotations

import logging
from typing import cast

import structlog


def quiet_log() -> structlog.stdlib.BoundLogger:
    """Return the logger that the program configured, or a silent one.

    An unconfigured structlog would print every debug line to stdout.
    """
    if structlog.is_configured():
        return cast("structlog.stdlib.BoundLogger", structlog.get_logger())
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    log = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=silent)
    return cast("structlog.stdlib.BoundLogger", log)
