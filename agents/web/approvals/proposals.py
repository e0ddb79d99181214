"""Earlier requests that bear on one: sent back, repeated by an agent, approved and asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.core.states import EscalationState
from agents.engine.people.approvals import ASKED_AGAIN, turn_of
from agents.models import Escalation, Step
from agents.operations.requests.sending_back import sent_back_in
from agents.sdk.adjustments import label_of
from agents.tools import argument_in_words
from agents.web.approvals.wording import act
from agents.web.changes import reply_of


@dataclass(frozen=True)
class Change:
    """One changed argument."""

    label: str
    before: str  # "" if it was missing
    after: str


@dataclass(frozen=True)
class SentBack:
    """An earlier request of the run."""

    escalation: Escalation
    act: str
    words: str  # of who sent it back
    is_other: bool  # another tool is proposed now
    changes: Sequence[Change]  # since then, if the tool is the same


@dataclass(frozen=True)
class ProposedBefore:
    """A call of an agent elsewhere which the request repeats."""

    run: str
    is_here: bool  # in the request's own run
    request: int | None  # in which a person was asked about it


@dataclass(frozen=True)
class ApprovedBefore:
    """The approval in whose place a request stands."""

    escalation: Escalation
    changes: Sequence[str]  # what the policy says since, as sentences


def approved_before(escalation: Escalation, reviews: Sequence[Step]) -> ApprovedBefore | None:
    """Return the approval in whose place a request stands, or None. `reviews` are its turn's.

    What the policy changed says more than the rules that ask for a person because of it.
    """
    if "#" not in escalation.step.key:  # the first request of its turn
        return None
    asked = Escalation.objects.filter(
        run=escalation.run_id, pk__lt=escalation.pk, not_carried_out=ASKED_AGAIN
    )
    same = asked.filter(step__key__startswith=turn_of(escalation.step.key)).order_by("-pk")
    before = same.select_related("decided_by", "step").first()
    if before is None:
        return None
    later = [one for one in reviews if one.position > before.step.position]
    revised = [ruling["sentence"] for one in later for ruling in reply_of(one)["revisions"]]
    known = {ruling["sentence"] for ruling in before.review["rulings"]}
    ruled = [r["sentence"] for r in escalation.review["rulings"] if r["verdict"] == "escalate"]
    changes = dict.fromkeys(revised or (one for one in ruled if one not in known))
    return ApprovedBefore(before, list(changes))


def proposed_before(escalation: Escalation) -> list[ProposedBefore]:
    """Return the calls that an agent's call repeats, as they stood when it was reviewed."""
    own = str(escalation.run_id)
    facts = escalation.review.get("facts") or {}
    found = [(one.get("run", own), one["turn"]) for one in facts.get("repeats") or ()]
    if not found:
        return []
    asked = Escalation.objects.filter(run__in={run for run, _ in found}, pk__lt=escalation.pk)
    keys = asked.order_by("pk").values_list("run", "step__key", "pk")
    requests = {(str(run), turn_of(key)): pk for run, key, pk in keys}
    return [ProposedBefore(run, run == own, requests.get((run, turn))) for run, turn in found]


def rejected_before(escalation: Escalation) -> Escalation | None:
    """Return the rejected request that binds this one, as it stood at the review; or None."""
    no = (escalation.review.get("facts") or {}).get("rejected")
    here = Escalation.objects.filter(workspace=escalation.workspace_id)
    return here.select_related("decided_by").filter(pk=no["request"]).first() if no else None


def sent_back_before(escalation: Escalation) -> list[SentBack]:
    """Return the requests of the run sent back before this one, newest first."""
    earlier = sent_back_in(escalation.run).filter(pk__lt=escalation.pk)
    found = earlier.select_related("decided_by", "run").order_by("-pk")
    return [_since(one, escalation) for one in found]


def corrected_before(escalation: Escalation) -> list[SentBack]:
    """Return the earlier rounds of a draft that a person sent back, newest first."""
    if escalation.action.get("round", 1) == 1:
        return []
    earlier = Escalation.objects.filter(
        run=escalation.run_id, pk__lt=escalation.pk, state=EscalationState.ADJUSTED
    )
    found = earlier.select_related("decided_by", "step", "run").order_by("-pk")
    same = (one for one in found if one.action.get("step") == escalation.action["step"])
    return [SentBack(one, act(one), correction_of(one), False, []) for one in same]


def correction_of(escalation: Escalation) -> str:
    """Return what a person wrote instead of an email, or as instructions for a draft; or ""."""
    return str((escalation.step.reply or {}).get("correction", ""))


def _since(before: Escalation, now: Escalation) -> SentBack:
    old, new = before.action.get("args") or {}, now.action.get("args") or {}
    tool = str(now.action.get("name", ""))
    is_other = before.action.get("name") != now.action.get("name")
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    changes = [
        Change(label_of(name), *(_words(tool, args, name) for args in (old, new))) for name in names
    ]
    return SentBack(before, act(before), before.comment, is_other, [] if is_other else changes)


def _words(tool: str, args: dict[str, object], name: str) -> str:
    return argument_in_words(tool, name, args[name]) if name in args else ""


def following(escalation: Escalation) -> int | None:
    """Return the run's next request after this one, or None."""
    later = Escalation.objects.filter(run=escalation.run_id, pk__gt=escalation.pk).order_by("pk")
    return later.values_list("pk", flat=True).first()
