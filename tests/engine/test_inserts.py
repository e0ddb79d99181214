"""Rows inserted by columns equal rows saved by their models."""

import pytest
from django.utils import timezone

from agents.db.inserts import insert_new, insert_rows, update_row
from agents.desks.refunds.models import SentMail
from agents.models import Run, Step
from tests.desk.ordering import AT, demo_book
from tests.engine.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def step_of(run: Run, position: int, *, reply: object = None) -> Step:
    return Step(
        run=run,
        position=position,
        key=f"{position}/propose",
        kind="ask",
        fingerprint="",
        asked={"role": "worker"},
        reply=reply,
        begun_at=timezone.now(),
    )


@pytest.mark.breaks("I32")  # steps that no engine began
@pytest.mark.parametrize("reply", ["text", 7, True, None, {"amount": [1, None]}])
def test_json_comes_back_as_it_went(scene: Scene, reply: object) -> None:
    step = step_of(scene.launch(), 1, reply=reply)

    insert_rows(step)
    update_row(step)

    assert Step.objects.get(pk=step.pk).reply == reply
    assert Step.objects.filter(reply__isnull=reply is None).exists()


def mail_to_anna(*, key: str, reference: str) -> SentMail:
    anna = demo_book().customers.get(number=42)
    return SentMail(
        book_id=anna.book_id,
        customer=anna,
        to=anna.email,
        key=key,
        reference=reference,
        started_at=AT,
    )


def test_a_row_is_known_by_any_of_its_unique_columns() -> None:
    assert insert_new(mail_to_anna(key="one", reference="the same"))

    assert not insert_new(mail_to_anna(key="another", reference="the same"))
