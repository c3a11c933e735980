"""Compare one stack with its wanted state, and create a change set if they differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from orchestrator.infra import templates
from orchestrator.infra.change_set import (
    ChangeSet,
    create_change_set,
    delete_change_set,
)
from orchestrator.infra.environment import Environment
from orchestrator.infra.parameters import (
    StackParameters,
    refuse_missing,
    refuse_unknown,
    resolve_parameters,
)
from orchestrator.infra.parts import Part
from orchestrator.infra.site import AwsSession
from orchestrator.infra.stack import Stack, StackState
from orchestrator.infra.standing import require_ready
from orchestrator.infra.templates import Template
from piecework.errors import PieceworkError


@dataclass(frozen=True, slots=True)
class StackResult:
    """The result of a deploy or diff for one stack.

    Attributes:
        result: After a deploy: created, updated or unchanged. After a diff: create,
            update, unchanged, or later if outputs of earlier stacks are missing.
        detail: CloudFormation's reason for an empty change set, or the names of the
            missing parameters.
    """

    part: Part
    stack: str
    result: str
    changes: tuple[dict[str, Any], ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""

    @property
    def changed(self) -> bool:
        """Whether the stack changed or would change."""
        return self.result != "unchanged"

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return {
            "part": str(self.part),
            "stack": self.stack,
            "result": self.result,
            "changes": list(self.changes),
            "outputs": dict(self.outputs),
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """The present state of a stack and the proposed change.

    Attributes:
        change_set: None if template and parameters are unchanged or incomplete.
        missing: Parameters without a value.
    """

    part: Part
    stack: Stack
    template: Template
    found: StackState | None
    change_set: ChangeSet | None
    missing: tuple[str, ...] = ()

    @property
    def outputs(self) -> Mapping[str, str]:
        """The present outputs of the stack."""
        return self.found.outputs if self.found else {}

    def discard(self) -> None:
        """Delete the change set, if there is one."""
        if self.change_set is not None:
            delete_change_set(self.change_set)

    @contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """Delete the change set if the block raises before it is executed."""
        try:
            yield
        except BaseException:
            with suppress(PieceworkError):  # the first error is the one to report
                self.discard()
            raise

    def to_result(self, result: str, outputs: Mapping[str, str]) -> StackResult:
        """Return the result of this stack, with the changes and outputs."""
        change_set = self.change_set
        return StackResult(
            self.part,
            self.stack.name,
            result,
            tuple(c.document() for c in change_set.changes) if change_set else (),
            outputs,
            change_set.empty_reason if change_set else ", ".join(self.missing),
        )


def propose_stack(
    session: AwsSession,
    environment: Environment,
    part: Part,
    inherited: Mapping[str, str],
) -> Proposal:
    """Compare a stack with its wanted state; create a change set if they differ.

    Raises:
        UsageError: The state of the stack allows no change, or AWS refuses.
        InfraError: `infra.change.refused`.
    """
    stack, template = session.stack(environment, part), templates.load(part)
    found = stack.find()
    if found is not None:
        require_ready(stack.name, part, environment.env, found.status)
    present = found.parameters if found else {}
    values = resolve_parameters(template, environment, inherited, present)
    if values.missing:
        return Proposal(part, stack, template, found, None, values.missing)
    if found is not None and _is_current(stack, template, values, found):
        return Proposal(part, stack, template, found, None)
    name = f"piecework-{uuid4().hex[:12]}"
    change_set = create_change_set(
        stack, template, values.to_request(), name=name, new=found is None
    )
    return Proposal(part, stack, template, found, change_set)


def check_parameters(
    environment: Environment,
    parts: Collection[Part],
    present: Mapping[Part, StackState],
) -> None:
    """Check the parameters of all stacks before any stack is changed.

    Raises:
        UsageError: `infra.parameter.unknown`, `infra.parameter.missing`.
    """
    loaded = {part: templates.load(part) for part in parts}
    refuse_unknown(environment, loaded.values())
    outputs = {part: found.outputs for part, found in present.items()}
    outputs |= {part: dict.fromkeys(t.outputs, "") for part, t in loaded.items()}
    for part, template in loaded.items():
        inherited = environment.inherited_parameters(part, outputs)
        current = present[part].parameters if part in present else {}
        values = resolve_parameters(template, environment, inherited, current)
        refuse_missing(part, values.missing)


def _is_current(
    stack: Stack, template: Template, values: StackParameters, found: StackState
) -> bool:
    return values.matches(found.parameters) and stack.template() == template.text
