"""The page of agents: an admin adds one, its owner gets a key once, both revoke it."""

import html
import re
import subprocess
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents.models import AgentKey, ExternalAgent
from tests.api.test_endpoints import OPEN, Caller
from tests.engine.scene import Scene
from tests.web.serving import serve
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True)]


def change(user: User, **given: object) -> Any:
    agent = ExternalAgent.objects.get(name="mail-triage")
    return client_of(user).post(reverse("agent-change", args=[agent.pk]), given)


def add(user: User, **other: str) -> Any:
    given = {"name": "mail-triage", "desk": "refunds", "owner": "omar", **other}
    return client_of(user).post(reverse("agent-add"), given)


def test_a_key_that_is_shown_once_works_until_it_is_revoked(scene: Scene, ada: User) -> None:
    assert add(ada).status_code == 302
    made = change(scene.omar, change="key", days=90).content.decode()
    [token] = set(re.findall(r"opsc_[0-9a-f]{8}_[0-9a-f]{48}", made))

    assert Caller(token).post("/runs", OPEN).status_code == 200
    listed = client_of(ada).get(reverse("agents")).content.decode()
    assert token not in listed
    assert f"{token[:13]}… used" in words(listed)
    [asked] = re.findall(r"<details><summary[^>]*>Revoke.*?</details>", listed, re.DOTALL)
    assert "A program that uses this key is refused once it is revoked." in words(asked)
    assert 'value="revoke"' in asked

    change(ada, change="pause", days=90)
    assert Caller(token).post("/runs", {**OPEN, "reference": "b"}).json()["code"] == "agent_paused"
    change(ada, change="revoke", key=token[:13])
    assert Caller(token).post("/runs", OPEN).status_code == 401
    assert "no key" in words(client_of(ada).get(reverse("agents")).content.decode())


@pytest.mark.parametrize("whose", ["agent", "workspace"])
def test_a_form_that_is_sent_once_more_makes_no_second_key(
    scene: Scene, ada: User, whose: str
) -> None:
    add(ada)
    client, agent = client_of(scene.omar), ExternalAgent.objects.get()
    where, given = reverse("agent-change", args=[agent.pk]), {"days": "90"}
    if whose == "workspace":
        client = client_of(ada)
        where, given = reverse("workspace-key"), {"workspace": scene.workspace.slug}
    form = {**given, "change": "key", "newest": ""}

    made, again = client.post(where, form), client.post(where, form)

    assert (made.status_code, again.status_code) == (200, 422)
    assert "A key was made since" in words(again.content.decode())
    [key] = AgentKey.objects.all()
    assert f'name="newest" value="{key.prefix}"' in again.content.decode()
    assert client.post(where, {**form, "newest": key.prefix}).status_code == 200


def test_example_requests_of_a_new_key_work(scene: Scene, ada: User) -> None:
    add(ada)
    client, agent = client_of(ada), ExternalAgent.objects.get()
    assert "Waiting for its first call" in client.get(reverse("agent", args=[agent.pk])).text

    with serve() as site:
        at, host = reverse("agent-change", args=[agent.pk]), site.removeprefix("http://")
        form = {"change": "key", "days": 90}
        made = client_of(scene.omar).post(at, form, headers={"host": host}).text
        [snippet] = re.findall(r'id="snippet"><code>(.*?)</code>', made, re.DOTALL)
        said = subprocess.run(
            ["bash", "-eu", "-c", html.unescape(snippet)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

    assert '"tool": "get_refund_context"' in said.stdout
    assert '"name": "issue_refund"' in said.stdout
    assert "Waiting for its first call" in made
    shown = client.get(reverse("agent", args=[agent.pk])).text
    assert "Waiting for its first call" not in shown
    assert "Connected: its last call came" in words(shown)
    launch = reverse("launch")
    assert "Connect an agent" in client.get(launch).text
    assert "Connect an agent" not in client_of(scene.omar).get(launch).text


@pytest.mark.parametrize(
    "other",
    [
        {"name": "No Slug"},
        {"desk": "none"},
        {"owner": "rita"},  # a reviewer, who launches nothing
        {"owner": "nobody"},
        {"more": "x"},
    ],
)
def test_a_form_that_is_not_right_adds_nothing(
    scene: Scene, ada: User, other: dict[str, str]
) -> None:
    answer = add(ada, **other)

    assert answer.status_code == 422
    assert "Nothing was changed" in words(answer.content.decode())
    assert not ExternalAgent.objects.exists()


def test_the_owner_makes_keys_and_an_admin_the_rest(scene: Scene, ada: User) -> None:
    add(ada)
    add(ada, name="another", owner="ada")
    page = reverse("agents")
    for user in (scene.rita, scene.omar, scene.eve):
        assert add(user, name="third").status_code == 403
        assert client_of(user).post(reverse("workspace-key")).status_code == 403
    for user, given, status in (
        (scene.rita, {"change": "key"}, 403),
        (scene.eve, {"change": "key"}, 403),
        (ada, {"change": "key", "days": 90}, 422),
        (scene.omar, {"change": "key", "days": 9999}, 422),
        (scene.omar, {"change": "pause"}, 422),
        (scene.omar, {"change": "owner", "owner": "ada"}, 422),
        (scene.omar, {"change": "key", "days": 90}, 200),
        (ada, {"change": "owner", "owner": "omar"}, 302),
    ):
        answer = change(user, **given)
        assert answer.status_code == status, (user, given)
        if status == 422 and user == ada:
            assert "Ask omar to make one here, or give the agent another" in words(answer.text)
    [key] = AgentKey.objects.filter(revoked_at=None)
    own, all_of_them = (words(client_of(user).get(page).text) for user in (scene.omar, ada))

    assert (f"{key.prefix}…" in own, "another" in own) == (True, False)
    assert ("Pause" in own, "New key" in own, "Add an agent" in own) == (False, True, False)
    assert f"{key.prefix}…" in all_of_them
    theirs = ExternalAgent.objects.get(name="another")
    assert client_of(scene.omar).get(reverse("agent", args=[theirs.pk])).status_code == 404
    change(ada, change="owner", owner="ada")
    assert AgentKey.objects.get().revoked_at
    assert client_of(scene.omar).get(page).status_code == 403
    assert change(ada, change="key", days=90).status_code == 200
