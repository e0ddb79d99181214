"""A name in place of a key: the policy takes it for the key that exactly one name stands for.

Nobody learns names by guessing: what has none or several is listed by a tool or not told, and of
subjects only the run's own name counts.
"""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.redaction import RunBorder
from agents.models import Run
from agents.patterns.dialogue import FROM_VERSION
from agents.sdk.desk import DESKS
from agents.sdk.subjects import Subject

RULE = "policy.named"


def key_ruling(run: Run, action: Action, limits: Limits) -> Ruling | None:
    """Return how a call's names in place of keys are judged; None if it has none.

    Revised to the keys, or blocked with how to find one. Call it before facts are gathered, as
    they are about the keys.
    """
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(str(action.get("name"))) if desk else None
    is_earlier = run.question_version < FROM_VERSION or limits.profile == "reference"
    if desk is None or tool is None or is_earlier:
        return None
    given, border = action.get("args") or {}, RunBorder(run)
    keys: dict[str, str] = {}
    for name, about in {**tool.names, tool.subject: desk.subject}.items():
        text = border.resolve(given.get(name))
        if not isinstance(text, str) or about.named is None:
            continue
        try:
            with of_company(f"{desk.title} could not look up names"):
                if about.find_key(text, run.book_id):
                    continue
                found = about.keys_named(text, run.book_id)
        except DeskFailed:
            continue  # the call is judged as it stands
        if name == tool.subject:
            if run.subject_key in found:
                keys[name] = run.subject_key
        elif len(found) == 1:
            keys[name] = found[0]
        else:
            return _no_key(about, str(border.name(text)), found, limits)
    if not keys:
        return None
    told = " and ".join(f"“{given[name]}” is the name of {key}" for name, key in keys.items())
    revised = {**action, "args": {**given, **keys}}
    return Ruling(
        RulingKind.REVISE,
        "name_for_key",
        f"{told}.",
        risk=5,
        observed=", ".join(str(given[name]) for name in keys),
        limit=", ".join(keys.values()),
        action=border.name(revised),
        rule=RULE,
    )


def _no_key(about: Subject, text: str, found: list[str], limits: Limits) -> Ruling:
    """Block a name that is no key and not the name of exactly one; say how to find the key."""
    lists = about.listed_by if about.listed_by in limits.proposable else ""
    sentence = f"There is no {about.kind} with the key or the name “{text}”."
    if found:
        which = f": {', '.join(found)}" if lists else ""
        sentence = f"Several have the name “{text}”{which}."
    flip = f"Call {lists} first: it lists each {about.kind} with its key." if lists else ""
    known = {"observed": text, "flip": flip, "rule": RULE}
    return Ruling(RulingKind.BLOCK, "no_such_name", sentence, 60, **known)
