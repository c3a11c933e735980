"""How hypothesis looks for examples here."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is not a failure: these tests are not about durations.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
