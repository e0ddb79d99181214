"""The queue: each view holds what it promises, pages through all of it, and counts it."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.core.requests import Json
from agents.engine.deciders import people_who_may, roster_of
from agents.live.topics import InboxTopic, changed_topics, read_update
from agents.models import Escalation, Grants, Membership, Role, SavedView, Scope
from agents.people import members
from agents.requests import queue, sharing
from agents.requests.queue import WHOLE, line_of, reviewer
from tests.database import make_once
from tests.engine.scene import REFUND_1200, Scene, go, set_scene
from tests.limits import first_limit
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

TEXTS = ("tool", "rule", "pattern", "subject", "launcher")
# Of Rita, who grants up to USD 800.00: amount in minor units, currency, risk, minutes to go.
REQUESTS = [
    (120000, "USD", 40, 50),
    (80000, "USD", 70, 40),
    (80001, "USD", 70, 90),
    (5000, "EUR", 10, 20),  # once limited in one currency, she may grant no other
    (None, "", 100, 60),
    (120000, "JPY", 40, 5),
    (90000, "USD", 20, 30),
]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Seven requests, three to a page."""
    monkeypatch.setattr(queue, "INBOX", 3)
    scene, now = make_once("queue", seven), timezone.now()
    for held, (amount, currency, risk, minutes) in zip(
        Escalation.objects.order_by("pk"), REQUESTS, strict=True
    ):
        review = {**held.review, "deciding": {**held.review["deciding"], "risk": risk}}
        Escalation.objects.filter(pk=held.pk).update(
            amount_minor=amount,
            currency=currency,
            review=review,
            created_at=now - timedelta(minutes=minutes),
            expires_at=now + timedelta(minutes=minutes),
        )
    return scene


def seven() -> Scene:
    scene = set_scene()
    for _ in REQUESTS:
        go(scene.launch(REFUND_1200))
    return scene


def keys() -> list[int]:
    return list(Escalation.objects.order_by("pk").values_list("pk", flat=True))


def numbers_in(page: str) -> list[int]:
    return [int(pk) for pk in re.findall(r'id="q-(\d+)"', page)]


def walk(scene: Scene, query: str = "") -> list[int]:
    """Return the rows of all pages of an address, in order."""
    client, address, found = client_of(scene.rita), f"{reverse('approvals')}?{query}", list[int]()
    while address:
        page = client.get(address).text
        assert 0 < len(numbers_in(page)) <= queue.INBOX
        assert "data-next" not in page  # from where `j` would go on
        found += numbers_in(page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    return found


@pytest.mark.proves("I45")
@pytest.mark.parametrize(
    ("order", "places"),
    [
        ("deadline", [5, 3, 6, 1, 0, 4, 2]),
        # Currencies are never compared: each has its own order, and none comes last.
        ("amount", [3, 5, 0, 6, 2, 1, 4]),
        ("risk", [4, 1, 2, 5, 0, 6, 3]),
    ],
)
def test_every_request_is_on_one_page_in_each_order(
    scene: Scene, order: str, places: list[int]
) -> None:
    every = keys()

    assert walk(scene, f"order={order}") == [every[place] for place in places]


def test_a_request_that_moves_while_others_are_counted_is_shown(scene: Scene) -> None:
    first, now = keys()[0], timezone.now()
    Escalation.objects.update(expires_at=now + timedelta(days=3))

    def move(execute: Callable[..., object], statement: str, *rest: object) -> object:
        answer = execute(statement, *rest)
        if "GROUP BY" in statement:
            Escalation.objects.filter(pk=first).update(expires_at=now + timedelta(minutes=5))
        return answer

    with connection.execute_wrapper(move):
        assert numbers_in(client_of(scene.rita).get(reverse("approvals")).text)[0] == first


@pytest.mark.proves("I45")
def test_what_is_frozen_comes_last_and_is_reached_too(scene: Scene) -> None:
    every = keys()
    Escalation.objects.filter(pk__in=[every[5], every[3]]).update(frozen_at=timezone.now())

    assert walk(scene) == [every[place] for place in (6, 1, 0, 4, 2, 5, 3)]


def test_what_to_look_at_stands_first_and_unfolded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, client = keys(), client_of(scene.rita)
    Escalation.objects.filter(pk=every[4]).update(is_marked=True)

    assert walk(scene) == [every[place] for place in (5, 4, 3, 6, 1, 0, 2)]
    short = words(client.get(reverse("approvals")).text)
    monkeypatch.setattr(queue, "INBOX", 7)
    page = client.get(reverse("approvals")).text
    beside = client.get(reverse("approval", args=[every[6]])).text

    assert "Due within 30 minutes 2 Anna" in short  # of which the first page has one
    look, due = (page.index(f">{title} <") for title in queue.GROUPS[:2])
    fold = page.index(f'id="fold-{every[3]}"')  # it stands for both that are due
    assert look < page.index(f'id="q-{every[4]}"') < due < fold < page.index(f'id="q-{every[6]}"')
    assert "2 open" in words(page)
    assert "<details" not in page[look:due]
    assert 'class="fold"' not in beside
    assert "Look first 2" in words(beside)
    assert "Look first" not in words(client.get(reverse("approvals"), {"order": "risk"}).text)


def test_ticked_requests_are_shared_each_by_itself(scene: Scene) -> None:
    every, client, at = keys(), client_of(scene.rita), timezone.now()
    second = scene.add("second", Role.REVIEWER)

    def share(do: str, *places: int, **more: str) -> str:
        sent = {"do": do, "item": [every[place] for place in places], **more}
        answered = client.post(f"{reverse('share')}?view=all", sent)
        address = answered.get("Location")
        return words(client.get(address).text if address else answered.text)

    assert "Anna #42: and 1 more: claimed by you until" in share("claim", 1, 0)
    assert "and 1 more: assigned to second" in share("hand-over", 2, 3, to="person:second")
    assert "snoozed for you until" in share("snooze", 4, minutes="30")
    sharing.claim(escalation_id=every[6], by=second, at=at)
    told = share("claim", 2, 6)
    assert f"Request {every[6]} (Anna #42) stays as it was. second has claimed it" in told
    for wrong in ("", "approve"):
        assert "Choose requests, and what to do." in share(wrong, 5)
    assert "Choose who gets it." in share("hand-over", 5, to="person:nobody")
    assert "Choose for how long." in share("snooze", 5, minutes="7")
    sent = {"do": "claim", "item": [every[5]]}  # of a workspace that is not theirs
    assert client_of(stranger()).post(reverse("share"), sent).status_code == 302

    held = Escalation.objects.in_bulk()
    owners = [str(held[pk].claimed_by or "") for pk in every]
    assert owners == ["rita", "rita", "rita", "", "", "", "second"]
    assert [pk for pk in every if held[pk].assigned_to == second] == [every[2], every[3]]


@pytest.mark.proves("I45")
def test_each_view_counts_its_requests_by_currency(scene: Scene) -> None:
    every, now = keys(), timezone.now()
    second = scene.add("second", Role.REVIEWER)
    people = {"rita": scene.rita, "second": second}
    teams = {
        name: members.set_team(workspace=scene.workspace, slug=name, name=name, add=[user], at=now)
        for name, user in people.items()
    }
    for pk, by in ((every[0], scene.rita), (every[1], second), (every[2], second)):
        sharing.claim(escalation_id=pk, by=by, at=now)
    Escalation.objects.filter(pk=every[2]).update(claimed_until=now - timedelta(seconds=1))
    sharing.assign(escalation_id=every[1], by=None, to_user=scene.rita, at=now)
    sharing.assign(escalation_id=every[3], by=second, to_user=scene.rita, at=now)
    sharing.assign(escalation_id=every[4], by=second, to_team=teams["rita"], at=now)
    sharing.assign(escalation_id=every[5], by=second, to_team=teams["second"], at=now)
    soon = now + timedelta(minutes=5)
    sharing.snooze(escalation_id=every[6], by=scene.rita, until=soon, at=now)

    mine, unclaimed, above, snoozed = (
        sorted(walk(scene, f"view={view}")) for view in ("mine", "unclaimed", "above", "snoozed")
    )
    client = client_of(scene.rita)
    page = words(client.get(reverse("approvals")).text)

    # Somebody else has claimed the second, though it is assigned to her.
    assert mine == [every[place] for place in (0, 3, 4)]
    # An expired claim does not count; another team's request is theirs.
    assert unclaimed == [every[place] for place in (2, 4)]
    assert above == [every[place] for place in (0, 2, 3, 5)]
    assert snoozed == [every[6]]
    assert "Mine and my teams’ 3 EUR 50.00, USD 1,200.00" in page
    assert "Unclaimed 2 USD 800.01" in page
    assert "Above my limit 4 EUR 50.00, JPY 120,000, USD 2,000.01" in page
    assert "Snoozed 1 USD 900.00" in page
    assert "All but snoozed 6 EUR 50.00, JPY 120,000, USD 2,800.01" in page
    assert ", waiting: 6" in page  # the badge counts what the list does
    listed = Escalation.objects.exclude(pk=every[6]).order_by("expires_at").first()
    assert listed
    soonest = f'data-soonest="{listed.expires_at.isoformat()}"'
    assert soonest in client.get(reverse("approvals"), {"view": "snoozed"}).text
    assert "for second" in page
    # Others see what she has snoozed; an expired snooze does not count.
    assert "Snoozed 0" in words(client_of(second).get(reverse("approvals")).text)
    who = reviewer(scene.rita, at=soon)
    assert line_of(WHOLE, who, views=["all"]).views["all"].count == 7


@pytest.mark.parametrize(
    ("grants", "limits", "above"),
    [
        (Grants.ANY, {}, 0),
        (Grants.ANY, {"bank": {"EUR": 5}}, 0),
        (Grants.LISTED, {"bank": {"EUR": 5}}, 6),
        (Grants.LISTED, first_limit(10**6), 2),
        (Grants.NONE, first_limit(10**6), 6),
    ],
)
def test_view_and_receivers_follow_grants(
    scene: Scene, grants: Grants, limits: Json, above: int
) -> None:
    Membership.objects.filter(user=scene.rita).update(desk_limits=limits, grants=grants)
    Membership.objects.exclude(user=scene.rita).delete()  # nobody else may decide

    page = client_of(scene.rita).get(reverse("approvals"), {"view": "above"}).text

    assert f"Above my limit {above}" in words(page)
    listed = walk(scene, "view=above") if above else []
    for one in Escalation.objects.filter(amount_minor__isnull=False):
        card = client_of(scene.rita).get(reverse("approval", args=[one.pk])).context["card"]
        told = card["most_minor"] == one.amount_minor, bool(people_who_may(one, roster_of(one)))
        assert told == (one.pk not in listed,) * 2, one


FILTERS: list[tuple[str, Iterable[int]]] = [
    ("tool=issue_refund", range(7)),
    ("tool=send_reply", []),
    ("rule=a.rule", range(7)),
    ("pattern=supervisor&desk=refunds&launcher=omar&subject=42", range(7)),
    ("subject=anna", range(7)),
    ("launcher=nobody", []),
    ("desk=bank", []),
    ("pattern=routing", []),
    ("desk=refunds&rule=a.rule&amount_from=900&currency=USD&age=1&due=1000&launcher=omar", [0, 6]),
    ("amount_from=900", [0, 5, 6]),
    ("amount_from=900&currency=usd", [0, 6]),
    ("amount_from=USD+900.00", [0, 6]),
    ("amount_from=%24900&amount_to=1,200.00", [0, 6]),
    ("amount_from=1.000", []),
    ("amount_to=800.00&currency=USD", [1]),
    ("age=60", [2, 4]),
    ("due=10", [5]),
    ("view=above&due=30", [3, 5, 6]),
    ("amount_from=many", []),
    ("age=-1", []),
    ("subject=%00", []),
]


def test_a_filter_leaves_what_fits(scene: Scene) -> None:
    every, client = keys(), client_of(scene.rita)
    rule = Escalation.objects.all()[0].review["deciding"]["rule"]

    for query, places in FILTERS:
        query = query.replace("a.rule", rule)
        page = client.get(f"{reverse('approvals')}?{query}").text
        found = walk(scene, query) if numbers_in(page) else []
        assert sorted(found) == [every[place] for place in places], query
        matches = "1 request matches" if len(found) == 1 else f"{len(found)} requests match"
        assert (matches in words(page)) is ("cannot be read" not in page), query
    odd = words(client.get(f"{reverse('approvals')}?age=-1").text)
    assert "“Waiting at least” cannot be read. Clear the filter." in odd
    assert 'issue_refund">Issue refund<' in page


def test_decision_leads_to_the_views_next_request(scene: Scene) -> None:
    every, client = keys(), client_of(scene.rita)
    above = walk(scene, "view=above&order=amount")
    assert above == [every[place] for place in (3, 5, 0, 6, 2)]
    passed = []

    pk = above[3]  # from the middle: those before it follow after those behind it
    for _ in above:
        held = Escalation.objects.get(pk=pk)
        answered = client.post(
            f"{reverse('decide', args=[pk])}?view=above&order=amount&x=1",
            {"verdict": "reject", "refusal": "no", "action_sha256": held.action_sha256},
        )
        passed.append(pk)
        place = re.fullmatch(
            rf"/approvals/(?:(\d+)/)?\?view=above&order=amount&done={pk}", answered["Location"]
        )
        assert place
        assert "Rejected Anna #42: Nothing was" in words(client.get(answered["Location"]).text)
        pk = int(place[1] or 0)

    assert passed == [above[place] for place in (3, 4, 0, 1, 2)]
    assert pk == 0


def test_nobody_sees_in_the_strip_what_they_may_not_read(scene: Scene) -> None:
    held = Escalation.objects.get(pk=keys()[0])
    outsider = Scene(scene.workspace, scene.rita, scene.omar, scene.eve).add("x", Role.VIEWER)
    Membership.objects.filter(user=outsider).delete()
    scene.decide(held.run, approve=False)

    page = client_of(outsider).get(reverse("approvals"), {"done": held.pk}).text

    assert 'class="strip"' not in page


def test_a_saved_view_is_its_owners_or_shared_in_a_workspace(scene: Scene) -> None:
    second, ada = scene.add("second", Role.REVIEWER), scene.add("ada", Role.ADMIN)
    rita, eve = client_of(scene.rita), client_of(scene.eve)

    def save(client: Client, name: str, query: str, workspace: str = "") -> str:
        sent = {"name": name, "query": query, "workspace": workspace}
        answered = client.post(reverse("save-view"), sent)
        return answered.get("Location") or words(answered.text)

    # Unknown parameters are not saved.
    at = save(rita, " Big  ones ", "view=above&amount_from=900&x=1&after=3")
    assert at == "/approvals/?view=above&amount_from=900"
    assert save(rita, "Ours", "order=risk", scene.workspace.slug) == "/approvals/?order=risk"
    assert "needs the role" in save(eve, "Mine", "order=risk", scene.workspace.slug)
    assert "Page not found" in save(rita, "Elsewhere", "order=risk", "elsewhere")
    assert "Give the view a name" in save(rita, " ", "order=risk")
    assert "too long to save" in save(rita, "Long", "&".join(f"{n}={'ü' * 200}" for n in TEXTS))
    again = rita.post(reverse("save-view"), {"name": " ", "query": "order=risk"}).text
    assert '<form class="filterbar" method="get" action="/approvals/"' in again
    assert 'data-address="/approvals/?order=risk"' in again
    ours = SavedView.objects.get(name="Ours")

    for user, names in ((scene.rita, ["Big ones", "Ours"]), (second, ["Ours"])):
        page = client_of(user).get(reverse("approvals")).text
        assert re.findall(r'class="pill"[^>]*><bdi>([^<]+)', page) == names
    assert (
        '"pill on" href="/approvals/?order=risk"'
        in rita.get(reverse("approvals"), {"order": "risk"}).text
    )
    deleting = reverse("delete-view", args=[ours.pk])
    assert client_of(second).post(deleting).status_code == 409
    assert client_of(ada).post(deleting).status_code == 302
    assert [view.name for view in SavedView.objects.all()] == ["Big ones"]


@pytest.mark.proves("I45")
def test_every_page_shows_the_same_count_of_requests(scene: Scene) -> None:
    every, now = keys(), timezone.now()
    soon = now + timedelta(minutes=5)
    sharing.snooze(escalation_id=every[6], by=scene.rita, until=soon, at=now)
    shared, hers = (InboxTopic((scene.workspace.pk,), who) for who in (0, scene.rita.pk))
    versions = changed_topics({shared: "", hers: ""})
    live = [read_update(topic, versions[topic]).lines.decode() for topic in (shared, hers)]
    rita, badge = client_of(scene.rita), '<span class="vh">, waiting: </span>{}</span>'

    assert [badge.format(count) in lines for count, lines in zip((7, 6), live, strict=True)] == [
        True,
        True,
    ]
    for name in ("home", "approvals", "runs"):
        assert badge.format(6) in rita.get(reverse(name)).text
    overview = words(rita.get(reverse("home")).text)
    assert "6 wait. Next deadline: " in overview
    assert "All 6" in overview
    assert "All but snoozed 6" in words(rita.get(reverse("approvals")).text)
    assert badge.format(7) in client_of(scene.omar).get(reverse("runs")).text


def test_what_is_live_is_told_how_many_came_since(scene: Scene) -> None:
    every, client = keys(), client_of(scene.rita)
    ask = {"HX-Request": "true", "HX-Target": "queue"}

    beside = client.get(reverse("approval", args=[every[0]]), {"since": every[4]}, headers=ask).text

    assert beside.startswith("<section")
    assert f'data-newest="{every[6]}" data-arrived="2"' in beside
    assert numbers_in(beside) == [every[place] for place in (5, 3, 6, 1, 0, 4, 2)]


def test_the_queue_takes_few_queries(
    scene: Scene, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    ada = scene.add("ada", Role.ADMIN)
    scene.kill(ada, "look", scope=Scope.TOOL, target="send_reply")
    done = Escalation.objects.get(pk=keys()[2])
    scene.decide(done.run, approve=False)
    client, pk = client_of(scene.rita), done.pk
    filtered = f"view=above&order=risk&due=600&after={pk}"
    client.get(reverse("approvals"))  # the first of a minute moves the end of a session

    for address in (
        f"{reverse('approvals')}?{filtered}",
        f"{reverse('approvals')}?view=mine&done={pk}",
        f"{reverse('decided')}?by=me",
    ):
        with django_assert_max_num_queries(12):
            assert client.get(address).status_code == 200
    with django_assert_max_num_queries(12):  # what each page with a card asks for when it is live
        client.get(reverse("approval", args=[pk]), headers={"HX-Target": "queue"})
