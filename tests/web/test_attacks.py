"""A hostile browser: other verbs, forged forms, other hosts."""

import re

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from agents.core.requests import EscalationState
from agents.models import Escalation, Event, Role, Run
from tests.engine.scene import Scene
from tests.web.test_pages import ADDRESSES, SHARES, address, client_of, form, stranger, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

OPEN = {
    "healthz",
    "readyz",
    "metrics",
    "sign-in",
    "sign-out",
    "theme",
    "keys",
    "invitation",
    "sign-in-code",
    "sign-on",  # 404 without a provider; see test_sign_on
    "sign-on-answer",
}
ELSEWHERE = (
    *("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"),
    "nowhere",
)


def about(name: str, escalation: Escalation) -> str:
    return address(name, run=escalation.run_id, escalation=escalation.pk)


# Who may POST what; everybody else gets 403. A page that refuses the empty
# form answers 422 or 409, which is not denied.
MAY: dict[str, set[Role]] = {
    "decide": {Role.REVIEWER, Role.ADMIN},
    "judge-letter": {Role.REVIEWER, Role.ADMIN},
    "bulk-reject": {Role.REVIEWER, Role.ADMIN},
    "share": {Role.REVIEWER, Role.ADMIN},
    "claim": {Role.REVIEWER, Role.ADMIN},
    "release-claim": {Role.REVIEWER, Role.ADMIN},
    **{name: {Role.REVIEWER, Role.ADMIN} for name in SHARES},
    "cancel": {Role.OPERATOR, Role.REVIEWER, Role.ADMIN},
    "settle-call": {Role.REVIEWER, Role.ADMIN},
    "run-again": {Role.OPERATOR, Role.ADMIN},
    "run-ask-on": {Role.OPERATOR, Role.ADMIN},
    "agent-add": {Role.ADMIN},
    "workspace-key": {Role.ADMIN},
    "agent-change": {Role.ADMIN},
    "policy-draft-begin": {Role.ADMIN},
    "policy-draft-change": {Role.ADMIN},
    "policy-trial-cancel": {Role.ADMIN},
    "try-now": {Role.OPERATOR, Role.ADMIN},
    "become": set(Role),  # 404 outside the demo
    "launch": {Role.OPERATOR, Role.ADMIN},
    "notifications-prefer": set(Role),
    "save-view": set(Role),  # for oneself; to share it takes a role that decides
    "delete-view": set(Role),  # one's own; another's is 404
    "webhook-add": {Role.ADMIN},
    "webhook-change": {Role.ADMIN},
    "member-change": {Role.ADMIN},
    "team-add": {Role.ADMIN},
    "group-change": {Role.ADMIN},
    "member-link": {Role.ADMIN},
    "require-factor": {Role.ADMIN},
    "second-factor-change": set(Role),
    "password": set(Role),
    "invite": {Role.ADMIN},
    "invitation-revoke": {Role.ADMIN},
    "kill-press": {Role.ADMIN},
    "kill-release": {Role.ADMIN},
    "verify": {Role.AUDITOR, Role.ADMIN},
    "verify-cancel": {Role.AUDITOR, Role.ADMIN},
    "export": {Role.AUDITOR, Role.ADMIN},
    "bundle": {Role.AUDITOR, Role.ADMIN},
    "case-proof": {Role.AUDITOR, Role.ADMIN},
}
MAY_READ: dict[str, set[Role]] = {
    "agents": {Role.ADMIN},
    "agent": {Role.ADMIN},
    "launch": MAY["launch"],
    "judge": MAY["decide"],
    "bulk": MAY["decide"],
    "audit": {Role.AUDITOR, Role.ADMIN},
    "case": {Role.AUDITOR, Role.ADMIN},
    "members": {Role.AUDITOR, Role.ADMIN},
    "team": {Role.REVIEWER, Role.AUDITOR, Role.ADMIN},
    "team-csv": {Role.REVIEWER, Role.AUDITOR, Role.ADMIN},
    "member": {Role.AUDITOR, Role.ADMIN},
    "webhooks": {Role.ADMIN},
    "deliveries": {Role.ADMIN},
    "policy-draft": {Role.ADMIN},
    "policy-draft-try": {Role.ADMIN},
    "policy-trial": {Role.AUDITOR, Role.ADMIN},
    "policy-walk": {Role.AUDITOR, Role.ADMIN},
}


OTHERS = (Role.VIEWER, Role.REVIEWER)  # whom test_pages.test_who_gets_what sends everywhere


def test_what_both_tables_say_of_a_role_is_the_same() -> None:
    for name in set(ADDRESSES) - OPEN:
        for role, (read, sent) in zip(OTHERS, ADDRESSES[name][-2:], strict=True):
            assert (read == 403) == (role not in MAY_READ.get(name, set(Role))), name
            assert (sent == 403) == (name in MAY and role not in MAY[name]), name
            assert (sent == 405) == (name not in MAY), name


@pytest.mark.proves("W1")
@pytest.mark.parametrize("role", [role for role in Role if role not in OTHERS])
def test_every_role_gets_what_its_row_says(scene: Scene, role: Role) -> None:
    escalation = waiting(scene)
    client = client_of(scene.add("ada", role))

    for name in sorted(set(ADDRESSES) - OPEN):
        at = about(name, escalation)
        read = client.get(at).status_code
        sent = client.post(at).status_code
        may_read = role in MAY_READ.get(name, set(Role))
        assert read in (200, 405) if may_read else read == 403, f"{role} GET {name}: {read}"
        if name in MAY:
            assert (sent == 403) == (role not in MAY[name]), f"{role} POST {name}: {sent}"
        else:
            assert sent == 405, f"{role} POST {name}: {sent}"


@pytest.mark.proves("W1")
@pytest.mark.parametrize("verb", ["put", "delete", "patch", "trace"])
def test_no_address_takes_another_verb(scene: Scene, verb: str) -> None:
    escalation = waiting(scene)
    client = client_of(scene.rita)

    for name in ADDRESSES:
        answered = getattr(client, verb)(about(name, escalation))
        assert answered.status_code in (302, 403, 405), name

    assert Escalation.objects.get(pk=escalation.pk).state == EscalationState.OPEN


@pytest.mark.proves("W3")
@pytest.mark.parametrize("verb", ["head", "options", "get"])
def test_reading_changes_nothing(scene: Scene, verb: str) -> None:
    escalation = waiting(scene)
    user = scene.add("ada", Role.ADMIN)
    addresses = {name: about(name, escalation) for name in set(ADDRESSES) - {"sign-out"}}
    client, events = client_of(user), Event.objects.count()

    for name, where in addresses.items():
        getattr(client, verb)(where, {"verdict": "approve", "reason": "x"})
        assert Event.objects.count() == events, name

    assert "_auth_user_id" in client.session


@pytest.mark.proves("W3")
def test_a_form_from_elsewhere_is_refused(scene: Scene) -> None:
    escalation = waiting(scene)
    user = scene.add("ada", Role.ADMIN)
    events = Event.objects.count()
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    for name, rows in ADDRESSES.items():
        if any(row[1] not in (405,) for row in rows):
            answered = client.post(about(name, escalation), {"reason": "x"})
            assert answered.status_code == 403, name

    assert Event.objects.count() == events
    assert "_auth_user_id" in client.session


@pytest.mark.proves("W3")
def test_no_view_is_exempt_from_the_check_of_forms() -> None:
    from agents.urls import urlpatterns

    assert not [p.name for p in urlpatterns if getattr(p.callback, "csrf_exempt", False)]


@pytest.mark.proves("W2")
def test_ids_of_another_workspace_in_a_body_reach_nothing(scene: Scene) -> None:
    """Another workspace's admin sends our ids, one of a policy version among them."""
    escalation, client = waiting(scene), client_of(stranger())
    pressed = {"workspace": str(scene.workspace.pk), "scope": "workspace:", "reason": "x"}
    launched = {"goal": "g", "subject": "42", "token": "a1", "policy": "1"}

    assert client.post(reverse("kill-press"), pressed).status_code == 404
    assert client.post(reverse("launch"), launched).status_code == 422
    assert client.post(reverse("export"), {"run": str(escalation.run_id)}).status_code == 200
    assert Run.objects.count() == 1
    assert not Event.objects.filter(kind__startswith="kill_switch").exists()


@pytest.mark.proves("W8")
@pytest.mark.parametrize("back", ELSEWHERE)
def test_signing_in_leads_to_our_pages_only(scene: Scene, back: str) -> None:
    scene.rita.set_password("a long walk by the sea")
    scene.rita.save()
    typed = {"username": "rita", "password": "a long walk by the sea", "next": back}

    answered = Client().post(reverse("sign-in"), typed)

    assert (answered.status_code, answered["Location"]) == (302, "/")


@pytest.mark.proves("W8")
@pytest.mark.parametrize("back", ["/runs/\r\nSet-Cookie: evil=1", "/\nX-Evil: 1"])
def test_no_header_is_made_of_what_was_sent(scene: Scene, back: str) -> None:
    client = client_of(scene.rita)

    theme = client.post(reverse("theme"), {"theme": "dark", "back": back})
    filtered = client.get(reverse("runs"), {"text": back})

    for answered in (theme, filtered):
        assert "X-Evil" not in answered
        assert not any("\n" in value or "\r" in value for _, value in answered.items())
    assert "evil" not in theme.cookies


@pytest.mark.proves("W25")
def test_another_host_is_refused(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with override_settings(ALLOWED_HOSTS=["ops.example.com"]):
        other = Client().get("/sign-in/", headers={"host": "evil.example"})
        ours = Client().get("/sign-in/", headers={"host": "ops.example.com"})

    assert (other.status_code, ours.status_code) == (400, 200)
    [told] = [each for each in caplog.records if each.name.startswith("django.security")]
    assert told.exc_info is None  # one line: anybody can cause any number of them


PRIVATE = ("/.env", "/.git/config", "/db.sqlite3", "/var/secret-key", "/manage.py", "/admin/")
UP = ("../manage.py", "..%2fmanage.py", "%2e%2e/manage.py", "..\\manage.py", "....//manage.py")


@pytest.mark.proves("W22")
@pytest.mark.parametrize("path", [*PRIVATE, *(f"/static/{up}" for up in UP)])
def test_files_that_are_not_pages_are_not_served(path: str) -> None:
    assert Client().get(path).status_code in (400, 404)


@pytest.mark.proves("W24")
@pytest.mark.parametrize("path", ["/nowhere/", "/approvals/999999/", "/runs/not-a-run/"])
def test_an_error_page_tells_nothing_of_the_inside(scene: Scene, path: str) -> None:
    answered = client_of(scene.rita).get(path)

    assert answered.status_code == 404
    assert not re.search(r"Traceback|SELECT|agents\.|site-packages|urlpatterns", answered.text)


HIDDEN = (
    *("\u202e", "\u200f", "\x1b", "\x00", "\u2066"),
    *("\u200b", "\u00ad", "\U000e0041", "\u3164", "\ufeff", "\u200d", "\ufe0f", "\u2060"),
    *("\u115f", "\uffa0", "\u034f", "\u17b4", "\u180b", "\u2800", "\U000e0100", "\ue000"),
)


@pytest.mark.proves("W26")
def test_a_goal_or_a_reason_that_hides_is_refused(scene: Scene) -> None:
    escalation = waiting(scene)
    decide, launch = reverse("decide", args=[escalation.pk]), reverse("launch")
    rita, omar = client_of(scene.rita), client_of(scene.omar)

    for hidden in HIDDEN:
        text = f"12{hidden}00"
        launched = omar.post(launch, {"goal": text, "subject": "42", "token": "a1"})
        decided = rita.post(decide, form(escalation, comment=text))
        assert (launched.status_code, decided.status_code) == (422, 422), ascii(hidden)

    assert Run.objects.count() == 1
