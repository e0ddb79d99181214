"""What the program of today reads in a stored database: each ruling again, and each page.

Called in a process of the installation, whose settings it has.
"""

import json
from collections.abc import Sequence
from html import unescape
from re import DOTALL, findall, sub
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from agents.core.compat_0_2 import FIRST_DESK
from agents.core.requests import Json
from agents.core.reviews import DeskFacts, Facts, Ruling, RulingKind, consent_of
from agents.engine.desk import facts as gathering
from agents.engine.desk.registry import tools_of
from agents.engine.redaction import RunBorder
from agents.models import Escalation, Membership, Run, Step
from agents.policies import NO_CONSENT, review
from agents.policies.again import read_facts
from agents.sdk import values as arguments
from agents.sdk.desk import DESKS
from agents.sdk.rules import Case

LISTS = ("/", "/approvals/", "/approvals/decided/", "/runs/", "/policy/", "/audit/", "/team/")
_AS_THEY_ARE = "django.contrib.staticfiles.storage.StaticFilesStorage"
_HEADING = "<h2(?! class=.qgroup.)[^>]*>(.*?)</h2>"  # but those of the inbox's groups


def judge_again() -> list[list[str]]:
    """Put every stored review to the policy of its run again, with the facts stored beside it.

    Return of each whose it is, and in what it differs from the stored one.
    """
    found = []
    step: Any  # its reply is read as it is
    for run in Run.objects.select_related("policy", "agent").order_by("created_at", "pk"):
        steps = list(Step.objects.filter(run=run).order_by("position"))
        for step in steps:
            if step.kind == "review" and step.reply:
                kept = {key: step.reply[key] for key in step.reply if key not in ("facts", "key")}
                again = json.loads(json.dumps(_judge_again(step, run, steps), default=str))
                odd = sorted(key for key in {*kept, *again} if kept.get(key) != again.get(key))
                found.append([f"{run.desk}/{run.pattern}", " ".join(odd)])
    return found


def _judge_again(step: Any, run: Run, steps: Sequence[Step]) -> Json:
    before = [one for one in steps if one.ended_at and one.position < step.position]
    consent, named = NO_CONSENT, None
    said = [*step.reply["revisions"], *step.reply["rulings"]]
    if granted := next((one for one in steps if one.key == step.asked.get("granted")), None):
        consent = consent_of(granted.asked["review"], granted.reply)
    else:
        named = next((_ruling(one) for one in said if one["rule"] == "policy.named"), None)
    facts = _facts(step, run, before)
    judged = review(step.asked["action"], facts, run.limits, consent=consent, named=named)
    return judged.as_json()


def _ruling(kept: Json) -> Ruling:
    return Ruling(**{**kept, "verdict": RulingKind[kept["verdict"].upper()]})


def _facts(step: Any, run: Run, before: Sequence[Step]) -> Facts:
    """Return the facts that a review was given: from its own row, and the steps before it."""
    kept, action = step.reply["facts"], step.asked["action"]
    desk, border = DESKS[run.desk], RunBorder(run)
    sent_back = gathering.sent_back_by(run.desk, before, action)
    if run.desk == FIRST_DESK:  # in either form
        return read_facts(desk, action, kept, border)
    written = kept["own"]
    known = border.resolve(written)
    own = known if known is None else arguments.read_stored(desk.facts_type, known)
    case = arguments.read_stored(Case, border.resolve(kept["case"]))
    letter, is_final = kept.get("letter", ""), action.get("kind") == "final"
    told = gathering._sentences_on_record(before, tools_of(run), border)
    record = border.name(told) if told and (is_final or letter) else {}
    answered = gathering._answered(desk, before, border)
    refused = gathering._refused(desk, before, case, run) if is_final else ()
    done = tuple(kept["done"])
    return Facts(
        scope=run.scope,
        called_before=bool(kept.get("called_before")),
        letter=letter,
        own_words=tuple(kept.get("own_words", ())),
        record=record if letter else {},
        ledger=done if letter else (),
        sent_back_by=sent_back,
        border=border,
        desk=DeskFacts(own, case, done, kept, record, answered, refused),
    )


def read_limits() -> list[list[Json]]:
    """Return up to what each member may grant: at each desk and one added later, by currency."""
    parts, desks = Membership.objects.order_by("pk"), [*DESKS, "later"]
    codes = ("EUR", "JPY", "USD")
    return [
        [p.pk, desk, code, p.limit_minor(desk, code)]
        for p in parts
        for desk in desks
        for code in codes
    ]


def read_pages() -> list[str]:
    """Open every list, card and run page as an admin. Return what each card and run says first."""
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="admin"))
    cards = Escalation.objects.order_by("pk").values_list("pk", flat=True)
    runs = Run.objects.order_by("created_at", "pk").values_list("pk", flat=True)
    own = [*(f"/approvals/{pk}/" for pk in cards), *(f"/runs/{pk}/" for pk in runs)]
    found = []
    with override_settings(
        STORAGES={**settings.STORAGES, "staticfiles": {"BACKEND": _AS_THEY_ARE}}
    ):
        for page in (*LISTS, *own):
            answer = client.get(page)
            assert answer.status_code == 200, (page, answer.status_code)
            if page in own:
                first = findall(_HEADING, answer.content.decode(), DOTALL)[0]
                found.append(" ".join(unescape(sub("<[^>]+>", " ", first)).split()))
    return found
