"""Read the profiles of `aws login` by the AWS CLI, where the SDK cannot read them.

The SDK reads such a profile only with the package awscrt. The command that wrote the
profile can hand its credentials over, and renews them.
"""

from __future__ import annotations

import shlex
import shutil
from importlib.util import find_spec
from typing import Any


def read_logins(session: Any) -> None:
    """Let the AWS CLI hand over the credentials of each profile of `aws login`.

    Nothing changes if the SDK can read these profiles, or without the AWS CLI: then
    the SDK says that a package is missing.

    Args:
        session: A session of botocore or aiobotocore that has no credentials yet.
            Profiles that name such a profile as `source_profile` work, too.

    Raises:
        botocore.exceptions.ConfigParseError: The configuration cannot be read.
    """
    if find_spec("awscrt") is not None:
        return
    command = shutil.which("aws")
    if command is None:
        return
    for name, profile in session.full_config["profiles"].items():
        # The SDK would ask its own provider first, so its key has to go.
        if profile.pop("login_session", None):
            export = [command, "configure", "export-credentials", "--profile", name]
            profile.setdefault("credential_process", shlex.join(export))
