"""Deploy to the embedded emulator what it takes, which shows that the stacks fit.

What it does not know it refuses, and that is left out with whatever refers to it.
"""

from __future__ import annotations

from typing import Any

from piecework.aws.endpoint import Emulator
from tests.infra.check.body import parameters, with_numbers
from tests.infra.check.samples import GIVEN
from tests.infra.check.templates import Templates
from tests.infra.check.trial import Clients, Found, Trial

SERVICES = "cloudformation,cloudwatch,dynamodb,ec2,ecs,iam,kms,logs,s3,sns,sqs,sts"
ORDER = ("data", "network", "roles", "service", "scaling", "alarms")
#: What stacks are given: nothing that has a default, and everything that can be given.
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "given": {
        **GIVEN,
        "Encryption": "customer",
        "Egress": "public",
        "Endpoints": "always",
        "KmsEndpoint": "true",
        "SecretsEndpoint": "true",
        "ParametersEndpoint": "true",
        "BedrockEndpoint": "true",
    },
}


def try_out(emulator: Emulator, templates: Templates) -> Found:
    """Deploy every stack of every environment; return what was found."""
    found, clients = Found(), Clients(emulator)
    for env, choices in ENVIRONMENTS.items():
        outputs: dict[str, str] = {}
        for name in (name for name in ORDER if name in templates.parsed):
            given = parameters(templates.parsed[name], env, {**choices, **outputs})
            body = with_numbers(templates.parsed[name], given)
            outputs |= Trial(clients, env, name, body, given, found).run()
    clients.close()
    return found
