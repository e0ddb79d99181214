"""Single sign-on in a browser, whose content security policy binds every form."""

import pytest
from playwright.sync_api import Browser, expect

from tests.web.provider import providing, with_sign_on
from tests.web.serving import open_page, serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_browser_signs_on_through_two_other_origins(browser: Browser) -> None:
    with providing() as provider, serve(**with_sign_on(provider)) as site:
        page = open_page(browser)
        page.goto(f"{site}/sign-in/")
        page.get_by_role("button", name="Continue with Contoso").click()

        expect(page.get_by_role("heading", name="You are in no workspace")).to_be_visible()
        assert page.url.startswith(site)
        assert provider.heard.count("/elsewhere") == 1
