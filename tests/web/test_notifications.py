"""The pages about notifications: preferences, webhooks and deliveries."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.core.notifications import Kind, Mode, half_time
from agents.models import (
    Delivery,
    DeliveryState,
    Event,
    Membership,
    NotificationPreference,
    Role,
    Webhook,
    Workspace,
)
from agents.notifications.fan_out import share_out
from tests.notifications import pager
from tests.notifications.sinks import mail_server
from tests.notifications.telling import by_mail, tell, waiting, with_mailboxes
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

CHOICES = {kind.value: Mode.DIGEST.value for kind in Kind} | {"digest_at": "07:30"}


def test_webhooks_secret_is_shown_once_its_address_never(settings: Any) -> None:
    settings.OPSCONSOLE_WEBHOOK_HOSTS = ["localhost"]
    scene, ada = with_mailboxes()
    client = client_of(ada)
    given = {"name": "Chat", "url": "https://localhost:1/in/s3cr3t", "shape": "slack"}
    wanted = {**given, "workspace": scene.workspace.slug, "kind.opened": "1"}
    second = Workspace.objects.create(
        slug="second",
        name="Second",
        book=scene.workspace.book,
        created_at=scene.workspace.created_at,
    )
    Membership.objects.create(workspace=second, user=ada, role=Role.ADMIN)

    refused = client.post(reverse("webhook-add"), {**wanted, "url": "http://localhost/"})
    added = client.post(reverse("webhook-add"), wanted)
    webhook = Webhook.objects.get()
    again = client.post(reverse("webhook-add"), wanted)
    client.post(reverse("webhook-change", args=[webhook.pk]), {"change": "try"})
    waiting(scene)
    tell()

    assert (refused.status_code, added.status_code, again.status_code) == (422, 200, 422)
    assert "has to begin with https://" in words(refused.text)
    assert re.findall(r'name="kind\.(\w+)" value="1" checked', refused.text) == ["opened"]
    assert f'href="{reverse("webhooks")}?workspace={second.slug}"' in added.text
    assert webhook.secret in added.text
    with CaptureQueriesContext(connection) as queries:
        pages = [client.get(reverse(name)).text for name in ("webhooks", "deliveries", "audit")]
    assert len(queries) <= 3 * 12
    for page in [*pages, again.text]:
        assert webhook.secret not in page
        assert "s3cr3t" not in page
    assert "no answer (ConnectError)" in pages[1]
    assert "s3cr3t" not in str(list(Event.objects.values_list("facts", flat=True)))
    client.post(reverse("webhook-change", args=[webhook.pk]), {"change": "remove"})
    webhook.refresh_from_db()
    assert webhook.url == ""
    assert "No webhooks" in client.get(reverse("webhooks")).text


def test_own_preferences_override_the_admins_defaults() -> None:
    scene, ada = with_mailboxes()
    at, slug = reverse("notifications-prefer"), scene.workspace.slug
    eve, everybody = client_of(scene.eve), {**CHOICES, "workspace": slug, "for": "all"}

    assert eve.post(at, {**CHOICES, "workspace": slug}).status_code == 302
    assert eve.post(at, everybody).status_code == 403
    assert eve.post(at, {**CHOICES, "workspace": slug, "quiet_from": "22:00"}).status_code == 422
    assert client_of(ada).post(at, everybody).status_code == 302

    chosen = {row.user_id: row.digest_at for row in NotificationPreference.objects.all()}
    assert chosen == {scene.eve.pk: 450, None: 450}
    told = Event.objects.filter(kind="notifications.set").order_by("pk")
    assert [(event.actor, event.facts["of"]) for event in told] == [("eve", "eve"), ("ada", "")]
    shown = client_of(ada).get(reverse("notifications")).text
    chosen_radios = re.findall(r'name="(\w+)" value="(\w+)" checked', shown)
    both = [(kind.value, Mode.DIGEST.value) for kind in Kind] * 2  # her own and the defaults
    assert [one for one in chosen_radios if one[0] in list(Kind)] == both
    said = words(shown)
    assert said.count("Expired: never") == 2  # what a screen reader says of a button
    assert said.count("Messages about kill switches go to admins.") == 1
    assert "You in" in words(eve.get(reverse("notifications")).text)


@pytest.mark.both
def test_a_channel_of_ones_own_is_chosen_by_its_label(settings: Any) -> None:
    shipped = settings.OPSCONSOLE_CHANNELS
    scene, ada = with_mailboxes()
    client, at = client_of(ada), reverse("notifications-prefer")
    assert 'name="channel"' not in client.get(reverse("notifications")).text
    settings.OPSCONSOLE_CHANNELS = [*shipped, pager.PATH]
    shown = client.get(reverse("notifications")).text
    [pagers] = set(re.findall(r'<option value="(\w+)">\s*Pager\s*</option>', shown))
    chosen = {**CHOICES, **{kind.value: "now" for kind in Kind}, "workspace": scene.workspace.slug}

    refused = client.post(at, {**chosen, "channel": "pigeon"})
    client.post(at, {**chosen, "channel": pagers})
    request = waiting(scene)
    middle = half_time(request.created_at, request.expires_at) + timedelta(seconds=1)
    with mail_server() as mail:
        by_mail(settings, mail)
        tell()
        tell(middle)
        share_out(at=request.expires_at)
        settings.OPSCONSOLE_CHANNELS = shipped
        tell(request.expires_at)

        assert mail.got == []
    assert (refused.status_code, "Choose how messages are sent." in refused.text) == (422, True)
    about = "Refund USD 1,200.00 to Anna #42"
    told = ("Approval needed", "Still unclaimed after half its time")
    assert pager.sent == [("ada", f"{words}: {about}") for words in told]
    late = Delivery.objects.get(state=DeliveryState.DROPPED)
    assert (late.channel, late.fault) == (pagers, "its channel is not set up any more")
