"""Create or update the stacks of an environment, one after the other."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from piecework.errors import PieceworkError
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.change_set import (
    STATEFUL,
    ChangeSet,
    create_change_set,
    delete_change_set,
    execute_change_set,
    refuse_destructive_changes,
)
from piecework_orchestrator.infra.environment import (
    Environment,
    StackParameters,
    refuse_missing,
    refuse_unknown,
    resolve_parameters,
)
from piecework_orchestrator.infra.errors import translated_aws_errors
from piecework_orchestrator.infra.look_ahead import look_ahead
from piecework_orchestrator.infra.quotas import shortages
from piecework_orchestrator.infra.service_roles import ensure_service_roles
from piecework_orchestrator.infra.session import AwsSession, Interaction
from piecework_orchestrator.infra.stack import Stack, StackState, follow, require_ready
from piecework_orchestrator.infra.templates import Part, Template

#: The parameters that ask for a trigger.
TRIGGERS = frozenset({"Schedule", "ObjectBucket"})


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """The options of a deploy.

    Attributes:
        parts: The stacks to deploy; empty: all that the environment needs.
        allowed: Logical ids of the resources that the deploy may replace or remove.
    """

    environment: Environment
    parts: tuple[Part, ...] = ()
    allowed: tuple[str, ...] = ()


@dataclass(slots=True)
class DeployRun:
    """The stacks of one deploy, and the outputs of the stacks that are done.

    Attributes:
        present: The stacks that existed before it.
    """

    session: AwsSession
    request: DeployRequest
    parts: list[Part]
    present: Mapping[Part, StackState]
    outputs: dict[Part, Mapping[str, str]] = field(default_factory=dict)

    def propose(self, part: Part) -> Proposal:
        """Propose a stack, with the outputs of earlier stacks as parameters."""
        environment = self.request.environment
        inherited = environment.inherited_parameters(part, self.outputs)
        return propose_stack(self.session, environment, part, inherited)


def deploy(
    session: AwsSession, request: DeployRequest, interaction: Interaction
) -> list[StackResult]:
    """Propose, show, confirm, execute and follow the changes of each stack.

    Later stacks get the outputs of earlier stacks as parameters.

    Raises:
        UsageError: The deploy stopped before it changed the current stack.
        InfraError: `infra.deploy.failed`; CloudFormation has rolled the stack back.
    """
    done = []
    run = prepare(session, request)
    for line in shortages(session, request.environment, run.parts, run.present):
        interaction.report(line)
    for part in run.parts:
        outcome = _deploy_part(run, run.propose(part), interaction)
        run.outputs[part] = outcome.outputs
        done.append(outcome)
    return done


def diff(session: AwsSession, request: DeployRequest) -> list[StackResult]:
    """Propose each stack and discard the proposal; change nothing."""
    done = []
    run = prepare(session, request)
    for part in run.parts:
        proposal = run.propose(part)
        proposal.discard()
        done.append(proposal.to_result(_planned_result(proposal), proposal.outputs))
    return done


def prepare(session: AwsSession, request: DeployRequest) -> DeployRun:
    """Choose the stacks, and check all parameters before anything is changed.

    Raises:
        UsageError: A parameter is wrong, or `look_ahead` refuses.
    """
    environment = request.environment
    states = {part: session.stack(environment, part).find() for part in Part}
    present = {part: state for part, state in states.items() if state is not None}
    chosen = request.parts or required_parts(environment, present)
    parts = [part for part in Part if part in chosen]
    check_parameters(environment, parts, present)
    look_ahead(session, environment, parts, present)
    outputs = {part: found.outputs for part, found in present.items()}
    return DeployRun(session, request, parts, present, outputs)


def required_parts(environment: Environment, present: Collection[Part]) -> list[Part]:
    """Return the stacks that an environment needs.

    The network stack is left out if the user brings a VPC. A service stack without a
    network stack got its VPC in an earlier deploy, and still has that parameter. The
    triggers are left out until the user asks for one.
    """
    existing_vpc = environment.uses_existing_vpc or (
        Part.SERVICE in present and Part.NETWORK not in present
    )
    asked = TRIGGERS & environment.parameters_for(Part.TRIGGERS).keys()
    left_out = {
        *([Part.NETWORK] if existing_vpc else []),
        *([] if asked or Part.TRIGGERS in present else [Part.TRIGGERS]),
    }
    return [part for part in Part if part not in left_out]


def _deploy_part(
    run: DeployRun, proposal: Proposal, interaction: Interaction
) -> StackResult:
    refuse_missing(proposal.part, proposal.missing)
    change_set = proposal.change_set
    if change_set is None or change_set.empty_reason:
        proposal.discard()
        why = f": {change_set.empty_reason}" if change_set else ""
        interaction.report(f"{proposal.stack.name}: nothing to do{why}")
        result, outputs = "unchanged", proposal.outputs
    else:
        _confirm(run, proposal, change_set, interaction)
        with proposal.discarded_on_error():
            ensure_service_roles(run.session, proposal.template, interaction.report)
        after = _execute(run.request, proposal, change_set, interaction)
        outputs = after.outputs if after else {}
        result = "updated" if proposal.found else "created"
    if proposal.part is Part.DATA:
        protect_stack(proposal.stack)
    return proposal.to_result(result, outputs)


def _confirm(
    run: DeployRun, proposal: Proposal, change_set: ChangeSet, interaction: Interaction
) -> None:
    verb = "Update" if proposal.found else "Create"
    with proposal.discarded_on_error():
        interaction.show_changes(proposal.stack.name, change_set.changes)
        refuse_destructive_changes(change_set.changes, run.request.allowed)
        interaction.confirm(f"{verb} {proposal.stack.name} in {run.session}")


def _execute(
    request: DeployRequest,
    proposal: Proposal,
    change_set: ChangeSet,
    interaction: Interaction,
) -> StackState | None:
    stack, body = proposal.stack, proposal.template.body
    named = {c.resource for c in change_set.changes if c.destructive}
    named &= {*request.allowed}
    exempt = named if proposal.part is Part.DATA and proposal.found else set()
    with (
        replacements_allowed(stack, body, exempt),
        noting_interrupt(stack.name, interaction),
    ):
        token = uuid4().hex
        with proposal.discarded_on_error():
            execute_change_set(change_set, token)
        return follow(stack, change_set.stack_id, token, interaction.report)


@contextmanager
def noting_interrupt(name: str, interaction: Interaction) -> Iterator[None]:
    """On Ctrl-C, report that CloudFormation continues the change."""
    try:
        yield
    except KeyboardInterrupt:
        interaction.report(
            f"CloudFormation continues the change of {name}; "
            "run `piecework infra status` to follow it"
        )
        raise


def _planned_result(proposal: Proposal) -> str:
    if proposal.missing:
        return "later"
    change_set = proposal.change_set
    if change_set is None or change_set.empty_reason:
        return "unchanged"
    return "update" if proposal.found else "create"


# ── stack policy of the data stack ────────────────────────────────────────────
#
# The policy still protects the data if an operator deploys with another tool.


def protect_stack(stack: Stack) -> None:
    """Set the stack policy and turn on termination protection."""
    _set_policy(stack, templates.read(templates.STACK_POLICY))
    with translated_aws_errors(stack.name):
        stack.client.update_termination_protection(
            StackName=stack.name, EnableTerminationProtection=True
        )


@contextmanager
def replacements_allowed(
    stack: Stack, template: Mapping[str, Any], names: Collection[str]
) -> Iterator[None]:
    """Let an update replace or remove the named resources; restore the policy after."""
    if not names:
        yield
        return
    _set_policy(stack, json.dumps(policy_allowing(template, names)))
    try:
        yield
    finally:
        _set_policy(stack, templates.read(templates.STACK_POLICY))


def policy_allowing(
    template: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """Return a policy that protects all data resources except the named ones."""
    protected = [
        f"LogicalResourceId/{name}"
        for name, resource in template["Resources"].items()
        if resource["Type"] in STATEFUL and name not in names
    ]
    statements = [_statement("Allow", "Update:*", "*")]
    if protected:
        denied = ["Update:Replace", "Update:Delete"]
        statements.append(_statement("Deny", denied, protected))
    return {"Statement": statements}


def _statement(effect: str, action: object, resource: object) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": resource,
    }


def _set_policy(stack: Stack, policy: str) -> None:
    with translated_aws_errors(stack.name):
        stack.client.set_stack_policy(StackName=stack.name, StackPolicyBody=policy)


# ── compare one stack with its wanted state ───────────────────────────────────


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
    same_tags = found is not None and environment.tags in (None, found.tags)
    if found and same_tags and _is_current(stack, template, values, found):
        return Proposal(part, stack, template, found, None)
    change_set = create_change_set(
        stack,
        template,
        values.to_request(),
        name=f"piecework-{uuid4().hex[:12]}",
        new=found is None,
        tags=environment.tags,
        role_arn=environment.role_arn,
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
