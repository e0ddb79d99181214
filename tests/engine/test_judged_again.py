"""A stored ruling is judged again: as it was, under another version, or not at all."""

from typing import Any

import pytest

from agents.core.requests import Json
from agents.core.reviews import Facts, Open
from agents.desks.refunds.limits import STRICT
from agents.models import Run
from agents.policies.again import CannotJudge, read_facts
from agents.publishing.whatif import rulings_again
from agents.sdk.declaration_checks import type_of_facts
from agents.sdk.desk import DESKS
from tests.engine.scene import REFUND_500, Scene, go
from tests.limits import with_limits

pytestmark = pytest.mark.django_db(transaction=True)


def decisions(run: Run, limits: Any = None) -> list[str]:
    steps = list(run.steps.order_by("position"))
    found = [ruled for _, ruled in rulings_again(run, steps, *filter(None, [limits]))]
    return [one if isinstance(one, str) else one[-1].decision for one in found]


def test_ruling_is_judged_under_another_version(scene: Scene) -> None:
    """Nothing else of its run is judged otherwise; nothing runs, and nothing is written."""
    run = go(scene.launch(REFUND_500))
    was, steps = decisions(run), run.steps.count()

    now = decisions(run, with_limits(STRICT, auto_limit_minor=40_000).of(run.pattern, run.desk))

    changed = [(one, other) for one, other in zip(was, now, strict=True) if one != other]
    assert changed == [("approve", "escalate")]
    assert (decisions(run), run.steps.count()) == (was, steps)


@pytest.mark.judged_otherwise
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda reply: reply["facts"]["own"].pop("country"), "country: it is not stored"),
        (
            lambda reply: reply["facts"]["own"].update(refunds=[{"customer": 1}]),
            "Its facts cannot be",
        ),
        (lambda reply: reply["facts"].clear(), "No facts are stored"),
        (lambda reply: reply["facts"]["own"].update(unattended_minor=10**9), "has changed since"),
        (lambda reply: reply["rulings"].pop(), "has changed since"),
    ],
)
def test_ruling_is_not_guessed(scene: Scene, change: Any, why: str) -> None:
    run = go(scene.launch(REFUND_500))
    steps = [step for step in run.steps.order_by("position") if step.kind == "review"]
    judged = next(one for one in steps if one.asked["action"].get("name") == "issue_refund")
    change(judged.reply)

    found = {step.key: ruled for step, ruled in rulings_again(run, steps)}

    assert why in str(found[judged.key])


@pytest.mark.parametrize("kind", ["letter", "final"])
def test_older_letter_and_answer_are_not_judged(kind: str) -> None:
    """Their record was not kept: a letter that was out of date would now be sent."""
    action = {"kind": kind}
    case = {"subject": "1", "label": "1", "today": "2026-11-01", "launched_by": ""}
    stored: Json = {"desk": "bank", "own": None, "case": case, "done": []}
    stored |= {"letter": "text"} if kind == "letter" else {}

    with pytest.raises(CannotJudge, match="before letters and answers"):
        read_facts(DESKS["bank"], action, stored, Open())


def untyped(subject: str, asked: Any): ...  # type: ignore[no-untyped-def]
def any_kind(subject: str, asked: Any) -> Any: ...
def mapping(subject: str, asked: Any) -> dict[str, int]: ...  # type: ignore[empty-body]
def facts_or_none(subject: str, asked: Any) -> Facts | None: ...


@pytest.mark.parametrize("gather", [untyped, any_kind, mapping])
def test_desk_says_the_type_of_its_facts(gather: Any) -> None:
    assert type_of_facts(facts_or_none) is Facts
    with pytest.raises(TypeError, match="is to say its type"):
        type_of_facts(gather)
