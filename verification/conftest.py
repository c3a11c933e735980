"""Give the tests of this folder the fixtures of `tests/`."""

from tests.conftest import (
    deployed,
    emulator,
    emulator_python,
    environment_name,
    no_aws_of_the_developer,
)

__all__ = [
    "deployed",
    "emulator",
    "emulator_python",
    "environment_name",
    "no_aws_of_the_developer",
]
