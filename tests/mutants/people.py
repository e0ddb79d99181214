"""The guards of members, invitations, second factors and shared requests, each left out once."""

from tests.mutants.plant import Mutant

FACTOR, MEMBERS = "tests/web/test_second_factor.py", "tests/web/test_members.py"
SHARED = "tests/engine/test_handover.py"
ROLES = "agents/people/members.py"

PEOPLE = (
    Mutant(
        "an admin raises their own limit",
        "agents/people/workspaces.py",
        "if by in users:",
        "if False:",
        f"{MEMBERS} -k nobody_changes",
    ),
    Mutant(
        "the password alone signs in who has a factor",
        "agents/people/sign_in.py",
        "if second_factor.factor_of(user) is None:",
        "if True:",
        f"{FACTOR} -k works_once",
    ),
    Mutant(
        "a live page shows itself to whoever lacks a factor",
        "agents/live/app.py",
        "None if second_factor.lacks_factor(user, request.session) else user",
        "user",
        f"{FACTOR} -k needs_a_factor",
    ),
    Mutant(
        "whoever writes rows makes invitations",
        "agents/people/invitations.py",
        "known if known and secrets.compare_digest(known.token, token) else None",
        "known",
        "tests/web/test_invitations.py -k forged",
    ),
    Mutant(
        "a reviewer hands over what another has claimed",
        "agents/requests/sharing.py",
        "if require_member(escalation.workspace, by, *DECIDES).role != Role.ADMIN:",
        "if False:",
        f"{SHARED} -k neither_gives",
    ),
    Mutant(
        "a request is handed to whoever cannot decide it",
        "agents/requests/sharing.py",
        "if not receivers:",
        "if False:",
        f"{SHARED} -k neither_gives_nor_gets",
    ),
    Mutant(
        "a snooze outlives the deadline",
        "agents/requests/sharing.py",
        "if not at < until < deadline:",
        "if not at < until:",
        f"{SHARED} -k ends_before_the_deadline",
    ),
    Mutant(
        "whoever snoozes a request keeps it claimed",
        "agents/requests/sharing.py",
        "if escalation.claimed_by == by:",
        "if False:",
        f"{SHARED} -k snooze_ends",
    ),
    Mutant(
        "a comment shows a card number",
        "agents/requests/sharing.py",
        "redact_words(escalation.run, text.strip())",
        "text.strip()",
        f"{SHARED} -k kept_masked_once",
    ),
    Mutant(
        "a comment sent twice is there twice",
        "agents/requests/sharing.py",
        "if _is_told_again(escalation, COMMENTED, by, comment=words):",
        "if False:",
        f"{SHARED} -k kept_masked_once",
    ),
    Mutant(
        "whoever is removed stays signed in",
        ROLES,
        "        _forget_sessions(user, workspaces, at=at, actor=actor)\n        if not actor",
        "        if not actor",
        f"{MEMBERS} -k holds_nothing",
    ),
    Mutant(
        "whoever is removed keeps what they held",
        ROLES,
        "        count = _release_held(workspace, user, held, at=at, actor=actor)\n        facts",
        "        count = 0\n        facts",
        f"{MEMBERS} -k holds_nothing",
    ),
    Mutant(
        "the last admin is removed",
        ROLES,
        "        part = find_part(workspace, user)\n        _keep_an_admin(part)\n        revoke",
        "        part = find_part(workspace, user)\n        revoke",
        "tests/commands/test_people.py -k only_admin",
    ),
)
