"""Single sign-on in a browser, whose content security policy binds every form."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, expect

from agents.models import Escalation, Role
from agents.people.members import join
from tests.engine.scene import Scene
from tests.web.provider import providing, with_sign_on
from tests.web.serving import Card, advance_run, is_live, open_page, serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.mark.proves("I48")
def test_one_click_signs_on_through_two_other_origins(scene: Scene, browser: Browser) -> None:
    """After the end of a session, nothing typed is lost, and nothing is sent."""
    open_one = Escalation.objects.get(run=advance_run(scene.launch()))
    with providing() as provider, serve(**with_sign_on(provider)) as site:
        page = open_page(browser)
        page.goto(f"{site}/sign-in/")
        one_click = page.get_by_role("button", name="Continue with Contoso")
        one_click.click()

        expect(page.get_by_role("heading", name="You are in no workspace")).to_be_visible()
        assert page.url.startswith(site)
        assert provider.heard.count("/elsewhere") == 1

        eva, at = User.objects.get(username="eva"), timezone.now()
        limits = {"refunds": {"USD": 200_000}}
        join(workspace=scene.workspace, user=eva, role=Role.REVIEWER, desk_limits=limits, at=at)
        page.goto(f"{site}/approvals/{open_one.pk}/")
        is_live(page)
        page.locator(Card.REASON).fill("Four seats")
        page.context.clear_cookies(name="sessionid")
        page.reload()
        one_click.click()

        expect(page.locator(Card.REASON)).to_have_value("Four seats")
        assert page.url == f"{site}/approvals/{open_one.pk}/"
        open_one.refresh_from_db()
        assert open_one.state == "open"
