"""Notice a call whose arguments are drawn anew each time that its stage runs.

An argument with the time or a random id gives each run another key. The stored answer
is never found, and each claim that repeats the stage pays again. So a claim compares
what its stage asks for with what earlier claims of the same code stored:

    a stored call of a function is asked for             the function is stable
    new calls of it were answered, and none stored was   its key is unstable

Concurrent calls have no order, so one that is not stored proves nothing. The function
is judged when its stage has returned, or when more new calls of it were answered than
are stored: a worker that dies in each claim never comes to the end of the stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from piecework.domain.argument_digests import differing
from piecework.domain.identity import function_words
from piecework.domain.unstable_key import UnstableKey

#: Arguments that are named at most.
SHOWN = 3


class Site(NamedTuple):
    """A function, as a stage calls it; see `site_text`."""

    stage: str
    dependency: str
    function: str


@dataclass(slots=True)
class KeyWatch:
    """The answers of earlier claims that no call of this one has asked for.

    Attributes:
        found: The first call whose key is unstable; None: none was noticed.
    """

    found: UnstableKey | None = None
    _stored: dict[Site, dict[str, Mapping[str, str]]] = field(default_factory=dict)
    _sites: dict[str, Site] = field(default_factory=dict)
    _new: dict[Site, list[Mapping[str, str]]] = field(default_factory=dict)

    def load(self, key: str, site: Site, digests: Mapping[str, str]) -> None:
        """Note a stored call; `digests`: those of its arguments, if they are known."""
        self._sites[key] = site
        self._stored.setdefault(site, {})[key] = digests

    def note_asked(self, key: str) -> None:
        """Note that a call is asked for: if it is stored, its function is stable."""
        if self._sites and (site := self._sites.get(key)) is not None:
            self._forget(site)

    def watches(self, site: Site) -> bool:
        """Return whether a new call of a function may be a stored one under a new key.

        Without anything stored this costs a look into an empty dict.
        """
        return site in self._stored

    def note_new(self, site: Site, digests: Mapping[str, str]) -> UnstableKey | None:
        """Note an answered call that is not stored; return what it proves unstable."""
        new = self._new.setdefault(site, [])
        new.append(digests)
        return self._judge(site) if len(new) > len(self._stored[site]) else None

    def end_stage(self, stage: str) -> UnstableKey | None:
        """Judge the functions of a stage that has returned or failed."""
        sites = [site for site in self._new if site.stage == stage]
        found = [self._judge(site) for site in sites]
        return next(iter(found), None)

    def _judge(self, site: Site) -> UnstableKey:
        """Name the arguments in which the most alike pair of calls differs."""
        pairs = [
            differing(before, now)
            for before in self._stored[site].values()
            for now in self._new[site][:SHOWN]
            if before and now
        ]
        names = min(pairs, key=len, default=[])[:SHOWN]
        words = function_words(site.function, with_version=False)
        unstable = UnstableKey(site.stage, site.dependency, words, ", ".join(names))
        self.found = self.found or unstable
        self._forget(site)
        return unstable

    def _forget(self, site: Site) -> None:
        for key in self._stored.pop(site, {}):
            del self._sites[key]
        self._new.pop(site, None)
