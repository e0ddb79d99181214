"""htmx gets a page without its frame, or the sign-in page once access has ended."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", ["home", "approvals", "decided", "runs", "kill"])
def test_htmx_gets_the_content_of_a_page_and_a_browser_the_whole(scene: Scene, name: str) -> None:
    go(scene.launch())
    client = client_of(scene.rita)

    whole = client.get(reverse(name)).text
    content = client.get(reverse(name), headers={"HX-Request": "true"}).text

    assert "<html" in whole
    assert "<html" not in content
    assert "sign-out" not in content
    assert 'id="waiting"' in content
    assert len(content) < len(whole) - 4000


def test_lost_access_sends_the_whole_page_to_sign_in() -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/runs/?state=done"}

    answered = Client().get(reverse("runs"), headers=headers)

    assert answered["HX-Redirect"] == f"{reverse('sign-in')}?next=%2Fruns%2F%3Fstate%3Ddone"
    assert "Location" not in answered


def test_another_site_cannot_say_where_the_sign_in_leads() -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "https://evil.example.com/runs/"}

    answered = Client().get(reverse("runs"), headers=headers)

    assert answered["HX-Redirect"] == f"{reverse('sign-in')}?next=%2F"
