"""Bring an environment's stacks, one after the other, to what is wanted of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from orchestrator.infra import policy
from orchestrator.infra.change_set import ChangeSet, execute
from orchestrator.infra.changes import refuse_endangering
from orchestrator.infra.environment import Environment
from orchestrator.infra.following import follow
from orchestrator.infra.parameters import refuse_missing
from orchestrator.infra.parts import Part
from orchestrator.infra.review import Outcome, Proposal, check, propose_part
from orchestrator.infra.site import Site
from orchestrator.infra.stack import Found
from orchestrator.infra.talk import Talk


@dataclass(frozen=True, slots=True)
class Deploy:
    """What a deploy was told.

    Attributes:
        parts: The stacks that are meant; none: all that the environment needs.
        allowed: Logical ids of what may be replaced or removed.
    """

    environment: Environment
    parts: tuple[Part, ...] = ()
    allowed: tuple[str, ...] = ()


@dataclass(slots=True)
class Round:
    """The stacks that a deploy goes through, and what they have told so far."""

    site: Site
    told: Deploy
    parts: list[Part]
    outputs: dict[Part, Mapping[str, str]] = field(default_factory=dict)

    def propose(self, part: Part) -> Proposal:
        """Propose a stack, with the outputs of those before it."""
        environment = self.told.environment
        handed = environment.handed(part, self.outputs)
        return propose_part(self.site, environment, part, handed)


def deploy(site: Site, told: Deploy, talk: Talk) -> list[Outcome]:
    """Propose, show, ask, execute and follow each stack; hand its outputs on.

    Raises:
        UsageError: Nothing was changed by the stack at which it stopped.
        InfraError: `infra.deploy.failed`; CloudFormation has rolled the stack back.
    """
    done = []
    going = begin(site, told)
    for part in going.parts:
        outcome = _settle(going, going.propose(part), talk)
        going.outputs[part] = outcome.outputs
        done.append(outcome)
    return done


def diff(site: Site, told: Deploy) -> list[Outcome]:
    """Propose each stack and drop the proposal; nothing is changed."""
    done = []
    going = begin(site, told)
    for part in going.parts:
        proposal = going.propose(part)
        proposal.drop()
        done.append(proposal.outcome(_would(proposal), proposal.outputs))
    return done


def begin(site: Site, told: Deploy) -> Round:
    """Choose the stacks, and look at what is given before anything is touched."""
    environment = told.environment
    there = {part: site.stack(environment, part).find() for part in Part}
    present = {part: found for part, found in there.items() if found is not None}
    meant = told.parts or needed(environment, present)
    parts = [part for part in Part if part in meant]
    check(environment, parts, present)
    outputs = {part: found.outputs for part, found in present.items()}
    return Round(site, told, parts, outputs)


def needed(environment: Environment, present: Collection[Part]) -> list[Part]:
    """Return the stacks an environment needs: a network only when it is given none.

    A service without a network of ours was given one in an earlier deploy, which the
    stack remembers.
    """
    brought = environment.own_vpc or (
        Part.SERVICE in present and Part.NETWORK not in present
    )
    return [part for part in Part if not (brought and part is Part.NETWORK)]


def _settle(going: Round, proposal: Proposal, talk: Talk) -> Outcome:
    refuse_missing(proposal.part, proposal.missing)
    change_set = proposal.change_set
    if change_set is None or change_set.empty:
        proposal.drop()
        why = f": {change_set.empty}" if change_set else ""
        talk.say(f"{proposal.stack.name}: nothing to do{why}")
        result, outputs = "unchanged", proposal.outputs
    else:
        _ask(going, proposal, change_set, talk)
        after = _carry_out(going.told, proposal, change_set, talk)
        outputs = after.outputs if after else {}
        result = "updated" if proposal.found else "created"
    if proposal.part is Part.DATA:
        policy.protect(proposal.stack)
    return proposal.outcome(result, outputs)


def _ask(going: Round, proposal: Proposal, change_set: ChangeSet, talk: Talk) -> None:
    verb = "Update" if proposal.found else "Create"
    with proposal.dropped_on_error():
        talk.show(proposal.stack.name, change_set.changes)
        refuse_endangering(change_set.changes, going.told.allowed)
        talk.agree(f"{verb} {proposal.stack.name} in {going.site}")


def _carry_out(
    told: Deploy, proposal: Proposal, change_set: ChangeSet, talk: Talk
) -> Found | None:
    stack, body = proposal.stack, proposal.template.body
    named = {c.resource for c in change_set.changes if c.endangers} & {*told.allowed}
    spared = named if proposal.part is Part.DATA and proposal.found else set()
    with policy.relaxed(stack, body, spared), goes_on(stack.name, talk):
        token = uuid4().hex
        with proposal.dropped_on_error():
            execute(change_set, token)
        return follow(stack, change_set.stack_id, token, talk.say)


@contextmanager
def goes_on(name: str, talk: Talk) -> Iterator[None]:
    """Tell somebody who stops us that CloudFormation does not stop."""
    try:
        yield
    except KeyboardInterrupt:
        talk.say(f"{name} goes on by itself; `piecework infra status` shows how far")
        raise


def _would(proposal: Proposal) -> str:
    if proposal.missing:
        return "later"
    change_set = proposal.change_set
    if change_set is None or change_set.empty:
        return "unchanged"
    return "update" if proposal.found else "create"
