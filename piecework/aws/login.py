"""Read the profiles of `aws login` by the AWS CLI, where the SDK cannot read them.

The SDK reads such a profile only with the package awscrt. The command that wrote the
profile can hand its credentials over, and renews them.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from typing import Any, Final

#: A process in place of the AWS CLI, where there is none: the SDK tells what it says.
WITHOUT_CLI: Final = """\
import sys
sys.exit("The profile is one of `aws login`, and no `aws` is on the PATH. Put the AWS "
"CLI on the PATH, or run `pip install 'botocore[crt]'`.")
"""


def read_logins(session: Any) -> None:
    """Let the AWS CLI hand over the credentials of each profile of `aws login`.

    Nothing changes if the SDK can read these profiles. Without the AWS CLI such a
    profile fails when it is used, and the SDK's error says what to install.

    Args:
        session: A session of botocore or aiobotocore that has no credentials yet.
            Profiles that name such a profile as `source_profile` work, too.

    Raises:
        botocore.exceptions.ConfigParseError: The configuration cannot be read.
    """
    from botocore import credentials  # each caller has loaded it

    # An SDK of before `aws login` has no provider for it, whatever is installed.
    if find_spec("awscrt") is not None and hasattr(credentials, "LoginProvider"):
        return
    command = shutil.which("aws")
    for name, profile in session.full_config["profiles"].items():
        # The SDK would ask its own provider first, so its key has to go.
        if profile.pop("login_session", None):
            export = [sys.executable, "-c", WITHOUT_CLI]
            if command is not None:
                export = [command, "configure", "export-credentials", "--profile", name]
            profile.setdefault("credential_process", shlex.join(export))
