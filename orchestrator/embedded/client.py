"""AWS clients that know the emulator and nothing of the user's own account."""

from __future__ import annotations

from typing import Any

from piecework.endpoint import Emulator

ACCESS_KEY = "test"  # opens nothing: the emulator takes any


def client(service: str, emulator: Emulator) -> Any:
    """Return a client of one service of the emulator.

    The user's profile, configuration file, keys and proxies are left out of it: a
    broken profile must not stop the embedded AWS, and a good one is not to be used.
    """
    import boto3
    import botocore.session
    from botocore.config import Config

    nothing = (None, None, None, None)
    core = botocore.session.Session({"profile": nothing, "config_file": nothing})
    session = boto3.Session(
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=ACCESS_KEY,
        region_name=emulator.region,
        botocore_session=core,
    )
    config = Config(
        connect_timeout=2,
        read_timeout=30,
        proxies={},
        retries={"total_max_attempts": 2},
    )
    return session.client(service, endpoint_url=emulator.endpoint, config=config)
