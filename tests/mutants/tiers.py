"""The guards of tiers, of two people and of sending back, each left out once."""

from tests.mutants.plant import Mutant

CORE, APPROVING = "agents/core/decisions.py", "agents/requests/deciding.py"
DEMANDS, CLIMBING = ("agents/requests/granting.py", "agents/engine/escalating.py")
PURE, BOTH = "tests/core/test_tiers.py", "tests/engine/test_two_people.py"

BACK = "tests/engine/test_send_back.py"

TIERS = (
    Mutant(
        "a run is sent back for ever",
        "agents/requests/deciding.py",
        "if (sent_back_in(run).count() if before is None else before) >= most:",
        "if False:",
        f"{BACK} -k beyond_the_limit",
    ),
    Mutant(
        "what follows a send-back is done unseen",
        "agents/policies/__init__.py",
        "if facts.sent_back_by:",
        "if False:",
        f"{BACK} -k its_next_call_waits",
    ),
    Mutant(
        "one person alone is two",
        CORE,
        "if first_by == by:",
        "if False:",
        f"{PURE} -k nobody_alone",
    ),
    Mutant(
        "the second may approve other terms",
        CORE,
        "if first_by is not None and is_same",
        "if first_by is not None",
        f"{PURE} -k nobody_alone",
    ),
    Mutant(
        "a higher tier may take fewer people",
        CORE,
        "if higher.people < lower.people:",
        "if False:",
        f"{PURE} -k grow_easier",
    ),
    Mutant(
        "a higher tier may be everybody's",
        CORE,
        "if lower.team and not higher.team:",
        "if False:",
        f"{PURE} -k grow_easier",
    ),
    Mutant(
        "whoever is below a tier may say yes",
        DEMANDS,
        "if demand.teams is not None and not demand.admits(_teams_of(person)):",
        "if False:",
        f"{BOTH} -k below_the_tier",
    ),
    Mutant(
        "the launcher may be one of two",
        DEMANDS,
        "if demand.people > 1 and person.user_id in parties_of(escalation.run):",
        "if False:",
        f"{BOTH} -k launched",
    ),
    Mutant(
        "a first yes counts whatever became of who gave it",
        APPROVING,
        "if isinstance(judged, ApprovalLapsed):",
        "if False:",
        f"{BOTH} -k falls_away",
    ),
    Mutant(
        "the second decides whatever they were shown",
        APPROVING,
        "if shown is not None and shown != (first.pk if first else SAW_NONE):",
        "if False:",
        f"{BOTH} -k not_shown",
    ),
    Mutant(
        "a first yes counts towards no limit",
        "agents/requests/granting.py",
        "rows = list(alone.union(of_two, all=True))",
        "rows = list(alone)",
        f"{BOTH} -k own_limit",
    ),
    Mutant(
        "a silent tier is passed over while a switch stands",
        CLIMBING,
        "pk=pk, state=EscalationState.OPEN, frozen_at=None, climbs_at__lte=Now()",
        "pk=pk, state=EscalationState.OPEN, climbs_at__isnull=False",
        f"{BOTH} -k switch_stands",
    ),
    Mutant(
        "an approval can be changed",
        "agents/audit/stays.toml",
        '"at", "resource", "granted_minor"',
        '"at", "resource"',
        f"{BOTH} -k as_it_was_given",
    ),
    Mutant(
        "a card keeps the first reason from the second",
        "templates/approvals/_two.html",
        "{% if first.comment %}",
        "{% if False %}",
        "tests/web/test_two_people.py -k true_for",
    ),
)
