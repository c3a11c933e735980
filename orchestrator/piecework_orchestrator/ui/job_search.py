"""The search of the first page: what its address and its form say of the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.domain.tags import has_tags, parse_tags, tags_text
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.reading.job_list import parse_status
from piecework_orchestrator.reading.times import parse_limit

#: The spans of time that the form offers; an address may have any other one.
SPANS: Final = {"1h": "an hour", "1d": "a day", "7d": "a week", "30d": "30 days"}
#: The statuses that the form offers: those in which jobs stay.
STATUSES: Final = ("RUNNING", "PAUSED", "SUCCEEDED", "PARTIAL", "FAILED", "CANCELLED")
#: What the words are looked for in.
SEARCHED: Final = ("job", "source", "submitted_by", "pipeline")


@dataclass(frozen=True, slots=True)
class JobSearch:
    """Filters of jobs; an empty one matches all.

    Attributes:
        words: Each is a part of the job's id, source, submitter, pipeline or tags.
        pipeline: The name of the pipeline; `review*` for all that begin so.
        status: A status, in upper case.
        since: The span of time within which the job was created, such as `7d`.
        tag: Tags of the job, with commas between them, such as `team=legal`.
        everything: Whether a narrow page shows more than the first rows of a section.
    """

    words: str = ""
    pipeline: str = ""
    status: str = ""
    since: str = ""
    tag: str = ""
    everything: bool = field(default=False, compare=False)

    @classmethod
    def read(cls, query: Mapping[str, str]) -> JobSearch:
        """Return the search of an address.

        Raises:
            UsageError: `cli.usage.invalid`: no such status, or no span of time;
                `job.tag.invalid`.
        """
        words, pipeline, status, since, tag = (
            query.get(name, "").strip()
            for name in ("q", "pipeline", "status", "since", "tag")
        )
        tags = parse_tags(tag.split(",")) if tag else {}
        parse_limit(since)
        known = parse_status(status, JobStatus) if status else ""
        return cls(words, pipeline, known, since, tags_text(tags), "all" in query)

    @property
    def matches_all(self) -> bool:
        """Whether it has no filter."""
        return self == JobSearch()

    def since_at(self, now: float) -> str:
        """Return the ISO time of the oldest job that matches; empty: of any time."""
        span_s = parse_limit(self.since)
        return "" if span_s is None else iso(now - span_s)

    def matches(self, job: Document) -> bool:
        """Return whether a job matches; `listed` has filtered pipeline and time."""
        tags = job.get("tags", {})
        texts = [*(str(job.get(name, "")) for name in SEARCHED), tags_text(tags)]
        found = all(
            word in " ".join(texts).lower() for word in self.words.lower().split()
        )
        wanted = parse_tags(self.tag.split(",")) if self.tag else {}
        same = self.status in {"", job["status"]} and has_tags(tags, wanted)
        return found and same

    def address(self, *, everything: bool = False) -> str:
        """Return the query of its address, with its question mark; empty: no filter."""
        names = {"q": self.words, "pipeline": self.pipeline}
        names |= {"status": self.status, "since": self.since, "tag": self.tag}
        names |= {"all": "1"} if everything or self.everything else {}
        given = {name: text for name, text in names.items() if text}
        return f"?{urlencode(given)}" if given else ""
