"""What one stack is to become: compared, and proposed to CloudFormation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from orchestrator.infra import templates
from orchestrator.infra.change_set import ChangeSet, discard, propose
from orchestrator.infra.environment import Environment
from orchestrator.infra.parameters import Values, decide, refuse_missing, refuse_unknown
from orchestrator.infra.parts import Part
from orchestrator.infra.site import Site
from orchestrator.infra.stack import Found, Stack
from orchestrator.infra.standing import require_ready
from orchestrator.infra.templates import Template
from piecework.errors import PieceworkError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one stack, or would.

    Attributes:
        result: created, updated, unchanged; of a look: create, update, unchanged, or
            later, if it waits for outputs of stacks that are not there yet.
    """

    part: Part
    stack: str
    result: str
    changes: tuple[dict[str, Any], ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    said: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is a difference."""
        return self.result != "unchanged"

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "part": str(self.part),
            "stack": self.stack,
            "result": self.result,
            "changes": list(self.changes),
            "outputs": dict(self.outputs),
            "said": self.said,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A stack as it is and as it is to be.

    Attributes:
        change_set: None when template and parameters are those that it has.
    """

    part: Part
    stack: Stack
    template: Template
    found: Found | None
    change_set: ChangeSet | None
    missing: tuple[str, ...] = ()

    @property
    def outputs(self) -> Mapping[str, str]:
        """What the stack tells as it is."""
        return self.found.outputs if self.found else {}

    def drop(self) -> None:
        """Delete the change set, if there is one."""
        if self.change_set is not None:
            discard(self.change_set)

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        """Delete the change set if it is not to be executed after all."""
        try:
            yield
        except BaseException:
            with suppress(PieceworkError):  # what went wrong first is what counts
                self.drop()
            raise

    def outcome(self, result: str, outputs: Mapping[str, str]) -> Outcome:
        """Return what came of it."""
        found = self.change_set
        return Outcome(
            self.part,
            self.stack.name,
            result,
            tuple(c.document() for c in found.changes) if found else (),
            outputs,
            found.empty if found else ", ".join(self.missing),
        )


def propose_part(
    site: Site, environment: Environment, part: Part, handed: Mapping[str, str]
) -> Proposal:
    """Compare a stack with what is wanted; ask for a change set if they differ.

    Raises:
        UsageError: The stack is in no state to change, or AWS refuses.
        InfraError: `infra.change.refused`.
    """
    stack, template = site.stack(environment, part), templates.load(part)
    found = stack.find()
    if found is not None:
        require_ready(stack.name, part, environment.env, found.status)
    present = found.parameters if found else {}
    values = decide(template, environment, handed, present)
    if values.missing:
        return Proposal(part, stack, template, found, None, values.missing)
    if found is not None and _is_current(stack, template, values, found):
        return Proposal(part, stack, template, found, None)
    name = f"piecework-{uuid4().hex[:12]}"
    change_set = propose(
        stack, template, values.request(), name=name, new=found is None
    )
    return Proposal(part, stack, template, found, change_set)


def check(
    environment: Environment, parts: Collection[Part], present: Mapping[Part, Found]
) -> None:
    """Look at what is given before anything is touched.

    Raises:
        UsageError: `infra.parameter.unknown`, `infra.parameter.missing`.
    """
    loaded = {part: templates.load(part) for part in parts}
    refuse_unknown(environment, loaded.values())
    outputs = {part: found.outputs for part, found in present.items()}
    outputs |= {part: dict.fromkeys(t.outputs, "") for part, t in loaded.items()}
    for part, template in loaded.items():
        coming = environment.handed(part, outputs)
        now = present[part].parameters if part in present else {}
        refuse_missing(part, decide(template, environment, coming, now).missing)


def _is_current(stack: Stack, template: Template, values: Values, found: Found) -> bool:
    return values.same_as(found.parameters) and stack.template() == template.text
