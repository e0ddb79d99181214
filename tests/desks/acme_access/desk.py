"""Who may have which role on which system, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from acme_access import directory

from opsconsole.desks import (
    Answers,
    Args,
    Asked,
    Call,
    Case,
    Days,
    Desk,
    Json,
    Lower,
    Names,
    Ruling,
    Says,
    Subject,
    Touch,
    block,
    days_until,
    in_days,
    limit,
    tomorrow,
    within,
)


@dataclass(frozen=True)
class AccessLimits:
    """What an admin can set, per policy version."""

    longest: Days = limit(Days(7), "Longest grant without approval", "Longer ones are asked about.")
    systems: Names = limit(("billing", "crm"), "Systems an agent may ask for")


@dataclass(frozen=True)
class AccessFacts:
    """What a rule may know: from our directory and the ledger, never from a model's words."""

    employed: bool
    held: tuple[str, ...]  # roles held now
    granted_30d: int  # grants to this person in 30 days


desk = Desk(
    name="access",
    title="Access grants",
    subject=Subject(
        "employee", find=directory.find, search=directory.search, label="{name} ({team})"
    ),
    limits=AccessLimits,
    brief="You arrange access for colleagues, one step at a time.",
)


@desk.facts
def gather(subject: str, asked: Asked) -> AccessFacts:
    person, held = directory.find(subject), directory.roles_of(subject)
    employed = bool(person and person.employed)
    return AccessFacts(employed, held, asked.count("grant_access", days=30))


@desk.tool(
    Touch.SAFE,  # the same key grants once
    title="Grant access",
    before="Gives {subject} the role {role} on {system} until {until}.",
    after="{subject} has {role} on {system} until {until}.",
    subject="employee",
    resource="system",
    may_change={"until": Lower(least=tomorrow), "role": Lower()},
    find=directory.grant_by_key,
)
def grant_access(
    call: Call,
    *,
    employee: str,
    system: str,
    role: Literal["viewer", "editor", "admin"],
    until: date,
) -> Json:
    """Give an employee a role on one system until a day."""
    return directory.grant(employee, system, role, until, key=call.key)


@desk.rule(grant_access)
def employed(facts: AccessFacts) -> Ruling | None:
    """Only people who work here get access."""
    return (
        None if facts.employed else block("not_employed", "{subject} does not work here.", risk=90)
    )


@desk.rule(grant_access)
def known_system(args: Args, limits: AccessLimits) -> Ruling | None:
    """Only systems that an admin has named."""
    known = args.system in limits.systems
    return None if known else block("other_system", "{system} is not on the list.")


@desk.rule(grant_access)
def short(args: Args, limits: AccessLimits, case: Case) -> Ruling:
    """Short grants need nobody."""
    lasts = days_until(args.until, case.today)
    return within(lasts, limits.longest, reason="long_grant", what="The grant lasts")


desk.scenario(
    "A grant that is too long",
    subject="noor",
    goal="Give Noor editor on billing until the end of the quarter; she covers for Ben.",
    expect="A person moves the date nearer; access is granted once.",
    demo=[
        Says("grant_access", employee="noor", system="billing", role="editor", until=in_days(60)),
        Answers(),
    ],
)
