"""Rows inserted by columns equal rows saved by their models."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.core.states import EffectState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.db.inserts import insert_new, insert_rows, send_columns, send_rows, update_row
from agents.desks.refunds.models import SentMail
from agents.models import Effect, Run, Step
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


_STEP = CompiledSelect(lambda: Step.objects.filter(run=Param("run"), key=Param("key")).only("pk"))


def intent_of(run: Run, step: str, review: str) -> dict[str, object]:
    return {
        "run_id": run.pk,
        "step_id": {"run": run.pk, "key": step},
        "key": f"{run.pk}:{step}",
        "tool": "send_reply",
        "args": {"user_id": 42},
        "args_sha256": "",
        "review_id": {"run": run.pk, "key": review},
        "escalation_id": None,
        "subject_key": "42",
        "resource": "",
        "amount_minor": None,
        "currency": "",
        "state": EffectState.INTENDED,
        "result": None,
        "intended_at": timezone.now(),
        "settled_at": None,
        "report_due_at": None,
    }


@pytest.mark.breaks("I32")  # a step that no engine began
def test_a_row_that_finds_no_other_is_not_written(scene: Scene) -> None:
    run = scene.launch()

    def both() -> None:
        with transaction.atomic(), pipeline():
            send_rows(step_of(run, 1))
            nobody = [intent_of(run, "1/propose", "1/review")]
            send_columns(Effect, nobody, keys={"step_id": _STEP, "review_id": _STEP})

    with pytest.raises(IntegrityError):
        both()

    assert (Effect.objects.count(), Step.objects.count()) == (0, 0)
