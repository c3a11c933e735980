"""Create or update the stacks of an environment, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from orchestrator.infra import policy
from orchestrator.infra.change_set import ChangeSet, execute_change_set
from orchestrator.infra.changes import refuse_destructive_changes
from orchestrator.infra.environment import Environment
from orchestrator.infra.following import follow
from orchestrator.infra.parameters import refuse_missing
from orchestrator.infra.parts import Part
from orchestrator.infra.review import (
    Proposal,
    StackResult,
    check_parameters,
    propose_stack,
)
from orchestrator.infra.site import AwsSession
from orchestrator.infra.stack import StackState
from orchestrator.infra.talk import Interaction


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
    """The stacks of one deploy, and the outputs of the stacks that are done."""

    session: AwsSession
    request: DeployRequest
    parts: list[Part]
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
    """Choose the stacks, and check all parameters before anything is changed."""
    environment = request.environment
    states = {part: session.stack(environment, part).find() for part in Part}
    present = {part: state for part, state in states.items() if state is not None}
    chosen = request.parts or required_parts(environment, present)
    parts = [part for part in Part if part in chosen]
    check_parameters(environment, parts, present)
    outputs = {part: found.outputs for part, found in present.items()}
    return DeployRun(session, request, parts, outputs)


def required_parts(environment: Environment, present: Collection[Part]) -> list[Part]:
    """Return the stacks that an environment needs.

    The network stack is left out if the user brings a VPC. A service stack without a
    network stack got its VPC in an earlier deploy, and still has that parameter.
    """
    existing_vpc = environment.uses_existing_vpc or (
        Part.SERVICE in present and Part.NETWORK not in present
    )
    return [part for part in Part if not (existing_vpc and part is Part.NETWORK)]


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
        after = _execute(run.request, proposal, change_set, interaction)
        outputs = after.outputs if after else {}
        result = "updated" if proposal.found else "created"
    if proposal.part is Part.DATA:
        policy.protect_stack(proposal.stack)
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
        policy.replacements_allowed(stack, body, exempt),
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
