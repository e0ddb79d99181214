"""What people made of a full inbox: claims, hand-overs, snoozes, views, and what was told."""

from datetime import datetime, timedelta
from itertools import product

from django.contrib.auth.models import User
from django.db.models import F

from agents.core.notifications import Kind
from agents.models import Delivery, DeliveryState, Escalation, Notification, Snooze, Workspace
from agents.people import members
from agents.requests import sharing

EXPIRES = timedelta(hours=25)  # later than in the demo, so that what waits still waits
SHARE = 20  # of the open requests, one in so many is claimed, assigned and snoozed
TOLD_EACH = 20  # of the decided requests, one in so many was told to two people


def work_on_inbox(*, at: datetime) -> None:
    """Have people work on what is open, and keep what was told in the last 30 days."""
    waiting = Escalation.objects.filter(state="open")
    waiting.update(expires_at=F("expires_at") + EXPIRES)
    rita, mara = (User.objects.get(username=name) for name in ("rita", "mara"))
    first = Workspace.objects.get(slug="w00")
    team = members.set_team(workspace=first, slug="night", name="Night", add=[mara], at=at)
    keys = list(waiting.filter(workspace=first).order_by("pk").values_list("pk", flat=True))
    share = [keys[place :: SHARE * 2] for place in range(4)]
    for user, held in ((rita, share[0]), (mara, share[1])):
        until = at + timedelta(minutes=15)
        Escalation.objects.filter(pk__in=held).update(claimed_by=user, claimed_until=until)
    Escalation.objects.filter(pk__in=share[2]).update(assigned_team=team)
    until = at + timedelta(hours=2)
    Snooze.objects.bulk_create(Snooze(escalation_id=pk, user=rita, until=until) for pk in share[3])
    for number in range(20):
        query = f"order=amount&amount_from={100 * number}"
        sharing.save_view(by=rita, name=f"From {100 * number}", query=query, at=at)
    _tell([rita, mara], at=at)


def _tell(people: list[User], *, at: datetime) -> None:
    decided = Escalation.objects.filter(decided_at__isnull=False).order_by("pk")
    rows = decided.values_list("pk", "workspace_id", "run_id", "created_at")[::TOLD_EACH]
    told = Notification.objects.bulk_create(
        Notification(
            workspace_id=home,
            kind=Kind.OPENED,
            about=f"request:{pk}",
            run_id=run,
            escalation_id=pk,
            due_at=opened,
            addressed_at=opened,
        )
        for pk, home, run, opened in rows
    )
    Delivery.objects.bulk_create(
        Delivery(
            workspace_id=one.workspace_id,
            notification=one,
            user=person,
            key=f"{one.kind}:{one.about}",
            state=DeliveryState.SENT,
            due_at=one.due_at,
            next_at=one.due_at,
            ended_at=one.due_at,
        )
        for one, person in product(told, people)
    )
