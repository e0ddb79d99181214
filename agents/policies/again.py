"""Judge a stored ruling again, under any version, from what was stored with it.

The reader of stored facts stands here; `core.reviews` and `engine.desk.facts` write them.
"""

from collections.abc import Sequence

from agents.core.compat_0_2 import facts_of_first
from agents.core.json_forms import Action, canonical
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import Border, Consent, DeskFacts, Facts, ReviewResult, Ruling, RulingKind
from agents.policies import NO_CONSENT, review
from agents.sdk.desk import Desk
from agents.sdk.rules import NO_CASE, Case
from agents.sdk.values import BadValue, read_whole

FAILED = "rule_failed"
FAILS = "A rule cannot be asked any more."


class CannotJudge(Exception):
    """What the ruling depended on is not stored, or cannot be read any more."""


def judge_again(
    desk: Desk,
    asked: Json,
    reply: Json,
    then: Limits,
    others: Sequence[Limits] = (),
    *,
    border: Border,
    consent: Consent = NO_CONSENT,
) -> list[ReviewResult]:
    """Judge a stored review by `then` and by `others`, from its `asked` and `reply` alone.

    All are limits of its pattern and desk, `border` is its run's, and `consent` is what a person
    gave in the step that `asked["granted"]` names. The rulings under others say something only as
    `then`, under which it was judged, gives the stored one again. Raises CannotJudge.
    """
    action: Action = asked["action"]
    facts = read_facts(desk, action, reply["facts"], border)
    named = None if asked.get("granted") else _named_in(reply)
    judged = review(action, facts, then, consent=consent, named=named)
    had_failed = FAILED in {one["reason"] for one in reply["rulings"]}
    if FAILED in {one.reason for one in judged.rulings} and not had_failed:
        raise CannotJudge(FAILS)
    if not is_same(judged, reply):
        raise CannotJudge("What it depended on has changed since.")
    found = [(then, judged)]
    for limits in others:
        known = (ruled for one, ruled in found if one.of_rules == limits.of_rules)
        ruled = next(known, None) or review(action, facts, limits, consent=consent, named=named)
        if any(one.reason == FAILED for one in ruled.rulings):
            raise CannotJudge(FAILS)
        found.append((limits, ruled))
    return [ruled for _, ruled in found]


def is_same(judged: ReviewResult, reply: Json) -> bool:
    """Tell whether a ruling is the stored one: each rule's answer, sentence and number."""
    again = judged.as_json()
    kept = {name: reply.get(name) for name in again}
    return again == kept or canonical(again) == canonical(kept)


def read_facts(desk: Desk, action: Action, stored: Json, border: Border) -> Facts:
    """Return the facts that the rules saw. A field that was not stored has no default."""
    seen = stored.get("seen", {})
    if seen.get("unfit"):
        unfit = DeskFacts(None, NO_CASE, (), {})
        by = seen.get("sent_back_by", "")
        return Facts(border=border, desk=unfit, unfit=seen["unfit"], sent_back_by=by)
    if not stored:
        raise CannotJudge("No facts are stored with it.")
    is_told = bool(stored.get("letter")) or action.get("kind") == "final"
    try:
        if "desk" not in stored:
            stored = facts_of_first(stored, is_final=action.get("kind") == "final")
        if is_told and "seen" not in stored:
            raise CannotJudge(
                "It is from before letters and answers were stored with their record."
            )
        return _read(desk, stored, border)
    except (BadValue, KeyError, TypeError) as error:
        raise CannotJudge(f"Its facts cannot be read: {error}") from error


def _read(desk: Desk, stored: Json, border: Border) -> Facts:
    own, letter = stored["own"], stored.get("letter", "")
    if own is not None:
        own = read_whole(desk.facts_type, border.resolve(own))
    seen, done = stored.get("seen", {}), tuple(stored["done"])
    record = seen.get("record", {})
    of_desk = DeskFacts(
        own,
        read_whole(Case, border.resolve(stored["case"])),
        done,
        stored,
        record,
        tuple(seen.get("answered", ())),
        tuple(seen.get("refused", ())),
    )
    return Facts(
        desk=of_desk,
        border=border,
        called_before=stored.get("called_before", False),
        scope=stored.get("scope"),
        letter=letter,
        own_words=tuple(stored.get("own_words", ())),
        repeats=tuple(stored.get("repeats", ())),
        rejected=stored.get("rejected"),
        sent_back_by=seen.get("sent_back_by", ""),
        ledger=done if letter else (),
        record=record if letter else {},
        outdated=seen.get("outdated", {}),
    )


def _named_in(reply: Json) -> Ruling | None:
    """Return the stored ruling on names instead of keys, which the books of today may not give."""
    for one in (*reply["revisions"], *reply["rulings"]):
        if one["rule"] == "policy.named":
            return Ruling(**{**one, "verdict": RulingKind[one["verdict"].upper()]})
    return None
