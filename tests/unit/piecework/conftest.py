"""How hypothesis looks for examples here."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: what takes long is not what these tests are about.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
