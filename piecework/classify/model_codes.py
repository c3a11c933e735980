"""Map the error codes of model providers to our codes.

The words come from Anthropic's `error.type` and `error.details.error_code`, and from
OpenAI's `code` and `type`. Other providers with OpenAI's protocol use the same words.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from piecework.classify.http_status import status_code

_OVER_STATUS: Final = {
    # An exhausted quota has status 429 or 402, but no delay within a run ends it.
    "llm.policy.quota_exceeded": """
        billing_error billing_hard_limit_reached billing_not_active
        contract_spend_limit_reached enforced_spend_limit_reached insufficient_quota
        linked_organization_spend_limit_reached
    """,
    "llm.policy.content_filtered": """
        ResponsibleAIPolicyViolation bio_policy content_filter
        content_policy_violation image_content_policy_violation
        misalignment_policy_violation moderation_blocked
    """,
    "llm.context.overflow": "context_length_exceeded",
}
_STATUSES: Final = {
    400: "invalid_prompt invalid_request_error",
    401: "authentication_error invalid_api_key",
    403: "permission_error",
    404: "model_not_found not_found_error",
    409: "conflict_error",
    413: "request_too_large request_body_too_large_after_decoding",
    429: "ramp_limit_exceeded rate_limit_error rate_limit_exceeded requests tokens",
    500: "api_error server_error",
    504: "timeout_error",
    529: "overloaded_error",
}

# Words that are more specific than the status.
OVER_STATUS: Final = MappingProxyType(
    {word: code for code, words in _OVER_STATUS.items() for word in words.split()}
)

# Words that say the same as the status. They decide only if there is no error status,
# as in a stream that began with 200 and then failed.
INSTEAD_OF_STATUS: Final = MappingProxyType(
    {
        word: status_code("llm", status)
        for status, words in _STATUSES.items()
        for word in words.split()
    }
)
