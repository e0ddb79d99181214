"""The guards of members, invitations, second factors and figures, each left out once."""

from tests.mutants.plant import Mutant

FACTOR, MEMBERS = "tests/web/test_second_factor.py", "tests/web/test_members.py"

PEOPLE = (
    Mutant(
        "an admin raises their own limit",
        "agents/operations/people.py",
        "if by in users:",
        "if False:",
        f"{MEMBERS} -k nobody_changes",
    ),
    Mutant(
        "the password alone signs in who has a factor",
        "agents/web/sign_in/views.py",
        "if operations.factor_of(user) is None:",
        "if True:",
        f"{FACTOR} -k works_once",
    ),
    Mutant(
        "a live page shows itself to whoever lacks a factor",
        "agents/web/live/auth.py",
        "None if operations.lacks_factor(user, access.parts_of(user)) else user",
        "user",
        f"{FACTOR} -k needs_a_factor",
    ),
    Mutant(
        "whoever writes rows makes invitations",
        "agents/operations/inviting.py",
        "found if found and secrets.compare_digest(found.token, token) else None",
        "found",
        "tests/web/test_invitations.py -k forged",
    ),
)
