"""The old names in rows and documents of 0.2.0, translated.

Policy versions are never rewritten, and people keep documents as files. This is pure, and the only
place with old names: readers get today's.
"""

from collections.abc import Iterator, Mapping

from agents.core.requests import Json

FIRST_DESK = "refunds"  # of a run, an event or a limit without a desk
CURRENCY = "USD"  # of amounts without a currency
_ERASED_NUMBER = "customer"  # the subject of an erasure, by their number
SUBJECT = "customer"  # the kind of a run's subject, and of a cap on open requests
AMOUNT = "usd"  # the kind of an amount among the arguments of a tool
# Limits in the config of a recorded case.
RECORDED_LIMITS = {
    "auto_refund_limit_usd": "auto_limit_minor",
    "max_refund_per_run_usd": "run_limit_minor",
}
# Rules of the first desk, by the names under which policies have them.
RULES = {
    "answers.after_context": "refunds.after_context",
    "mail.after_refund": "refunds.after_refund",
    "mail.from_ledger": "refunds.from_ledger",
    "replies.as_accepted": "refunds.as_accepted",
    "replies.once": "refunds.one_reply",
    "refunds.unattended_today": "refunds.caps",
    "replies.output": "refunds.output",
    "subject.bound": "refunds.own_customer",
    "subject.context_before_money": "refunds.context_before_money",
    "subject.reading": "refunds.context",
}
_OF_REPORTS = (
    *("planned", "reading", "bound", "one_task_each", "complete", "critical"),
    *("briefed", "headed", "matches_facts"),
)
RULES |= {f"reports.{name}": f"refunds.report_{name}" for name in _OF_REPORTS}
_IN_POLICIES = {now: name for name, now in RULES.items()}
# Rules on an answer and a letter in one, by those of today; another rule of the policy approves.
ANSWERS = {"answers.matches_ledger": ("answer", "letter"), "answers.matches_evidence": ("answer",)}
# In older policies. It is now a rule for recorded cases, and never ruled in other runs.
RULE_OF_RECORDED_CASES = "refunds.reason_given"
# Who named an argument, in reviews of the first desk.
ORIGINS = {"record": "looked_up"}
# Argument names that do not read as words.
LABELS = {"user_id": "Customer"}

# Sentences about other runs, which no letter had.
_FOR_STAFF = ("No money was moved.", "The customer has not been told.")
_NOTHING_FOUND = "The case was looked into; this run paid nothing."
# Facts that were kept only where there were any.
_NEWER: dict[str, Json] = {"origins": {}, "doubts": [], "choices": {}, "resource": ""}
_IF_STORED = ("letter", "own_words", "scope", "repeats", "rejected", "called_before")
_OWN = ("subject", "context_of", "refunds", "country", "unattended_minor", "mail", "replies")

# Units of rulings without one, by their rules.
_OF_DAYS, _OF_MONEY = "refunds.window", ("refunds.", "mail.")
_OWN_LIMIT = "refund_limit_minor"  # a person's limit at the first desk
# Names in a policy document.
_RENAMED = {
    "late_roles": "late",
    "open_per_customer": "open_per_subject",
    "tells_customer": "finishes_letters",
    "tells_subject": "finishes_letters",
}
# Stop reasons.
STOP_REASONS = {f"too_many_open_requests:{SUBJECT}": "too_many_open_requests:subject"}
# Keys at the top of an old document that belong to the first desk's part: limits, daily caps with
# their defaults, and the content of each desk.
_LIMITS = ("auto_limit_minor", "run_limit_minor", "window_days")
_OF_RECORDED_CASES = ("told_limit_minor", "loose_topics", "null_is_none", "fills_reason")
_CAPS: dict[str, int | None] = {
    "launcher_daily_minor": 100_000_000,
    "workspace_daily_minor": 500_000_000,
    "reviewer_daily_minor": None,
}
_KEPT = ("rules", "tool_calls", "tool_repeats", "rolling_days", "required", "critical")
_AT_TOP = {
    *_LIMITS,
    *_OF_RECORDED_CASES,
    *_CAPS,
    *_KEPT,
    "proposable",
    "executable",
    "patterns",
    "about",
}
_IF_ANY = ("required", "critical", "about")
_DAYS = 30  # of `rolling_days` where no document names them


def in_policies(rule: str) -> str:
    """Return the name under which policies have a rule."""
    return _IN_POLICIES.get(rule, rule)


def unit_of(ruling: Mapping[str, Json]) -> str:
    """Return the unit of a stored ruling's values."""
    if "unit" in ruling:
        return str(ruling["unit"])
    rule = str(ruling.get("rule", ""))
    if rule == _OF_DAYS:
        return "days"
    return CURRENCY if rule.startswith(_OF_MONEY) else ""


def currency_of(facts: Mapping[str, Json]) -> str:
    """Return the currency of the amounts among an event's facts, or in a tool's reply."""
    return str(facts.get("currency") or CURRENCY)


def erased_subject(facts: Mapping[str, Json]) -> tuple[str, str]:
    """Return desk and key of the subject of an erasure event."""
    number = facts.get(_ERASED_NUMBER)
    if number is not None:
        return FIRST_DESK, str(number)
    return str(facts.get("desk", "")), str(facts.get("subject_key", ""))


def desk_of(facts: Mapping[str, Json]) -> str:
    """Return the desk in a launch event."""
    return str(facts.get("desk", FIRST_DESK))


def facts_of_first(stored: Mapping[str, Json], *, is_final: bool) -> dict[str, Json]:
    """Return the facts of a review at the first desk as any desk's are stored.

    Raises KeyError for what is not stored.
    """
    known = {**_NEWER, **stored}
    charge, letter, record = known["charge"], known["letter"], known["record"]
    doubts = [one for one in known["doubts"] if one["name"] == "amount_minor"]
    named_by = known["origins"].get("amount_minor", "nobody")
    own = {name: known[name] for name in _OWN} | {
        "charge": charge and {**charge, "key": known["resource"]},
        "to_choose": list(known["choices"].get("charge", ())),
        "amount_named_by": ORIGINS.get(named_by, named_by),
        "is_other_named": any(one["asked"] for one in doubts),
        "accepted": known["accepted"],
    }
    launcher, workspace = "unattended_by_launcher_minor", "unattended_today_minor"
    has_answer = is_final and bool(known["evidence"])
    done = (
        [] if has_answer else [one for one in known["ledger"] if not (letter and one in _FOR_STAFF)]
    )
    mailed = {"confirmation": known["mail"]["message"]} if letter and known["mail"] else {}
    return {
        "desk": FIRST_DESK,
        "own": own,
        "case": {"subject": str(known["subject"] or ""), "label": "", "today": "0001-01-01"}
        | {"launched_by": ""},
        "done": done,
        "unattended": {"launcher": known[launcher], "workspace": known[workspace]},
        **{name: known[name] for name in _IF_STORED if name in stored},
        "seen": {
            "record": {**record, **mailed},
            "answered": list(dict.fromkeys(record.values())) or [_NOTHING_FOUND]
            if has_answer
            else [],
            **{name: known[name] for name in ("outdated", "sent_back_by") if name in stored},
        },
    }


def own_limits(facts: Mapping[str, Json]) -> dict[str, Json]:
    """Return a person's limits as of an event: minor units by desk and currency."""
    limits, first = facts.get("desk_limits") or {}, facts.get(_OWN_LIMIT)
    return limits if first is None else {**limits, FIRST_DESK: {CURRENCY: first}}


def policy_document(document: Json) -> Json:
    """Return a policy's document with each desk's values in its part of `desks`.

    A new document is returned unchanged; unreadable parts are left to the reader.
    """
    if not isinstance(document, dict):
        return document
    given = _rename(document)
    old = {key: given.pop(key) for key in _AT_TOP & given.keys()}
    old = {key: value for key, value in old.items() if value or key not in _IF_ANY}
    desks = given.get("desks") or {}
    if not isinstance(desks, dict):
        return given
    if not old:
        return {**given, "desks": desks}
    desks = {name: _of_declared(part, old) for name, part in desks.items()}
    first = _of_first(old, desks.pop(FIRST_DESK, None))
    return {**given, "desks": {FIRST_DESK: first, **desks} if _has_rules(first) else desks}


def _rename(document: Mapping[str, Json]) -> dict[str, Json]:
    return {_RENAMED.get(key, key): value for key, value in document.items()}


def _of_first(old: Mapping[str, Json], held: Json) -> dict[str, Json]:
    """Return the first desk's part from the top of a document, over its existing part."""
    held = held if isinstance(held, dict) else {"caps": _caps(_CAPS)}
    part = {**held, **_part(old, held)}
    patterns = old.get("patterns", held.get("patterns")) or {}
    if isinstance(patterns, dict):
        patterns = {
            name: _part(_rename(own), part) if isinstance(own, dict) else own
            for name, own in patterns.items()
        }
    return {**part, "patterns": patterns}


def _part(old: Mapping[str, Json], held: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values of a part under today's names; limits and caps in full, with `held`."""
    part = {key: value for key, value in old.items() if key not in _AT_TOP or key in _KEPT}
    if "proposable" in old:
        part["tools"] = old["proposable"]
    if "proposable" in old or "executable" in old:
        had, before = held.get("tools", []), held.get("off", [])
        tools = _listed(part.get("tools", had))
        runs = _listed(old.get("executable", [name for name in had if name not in before]))
        if (off := [name for name in tools if name not in runs]) != before:
            part["off"] = off
    if limits := {key: old[key] for key in _LIMITS if key in old}:
        part["limits"] = {**held.get("limits", {}), **limits}
    if caps := {key: old[key] for key in _CAPS if key in old}:
        part["caps"] = _caps({**held.get("caps", {}).get(CURRENCY, {}), **caps})
    return part


def _caps(caps: Mapping[str, Json]) -> dict[str, Json]:
    known = {name: most for name, most in caps.items() if most is not None}
    return {CURRENCY: known} if known else {}


def _listed(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else []


def _of_declared(part: Json, old: Mapping[str, Json]) -> Json:
    """Return a declared desk's part, with the top's values for all desks."""
    if not isinstance(part, dict):
        return part
    held = {key: old[key] for key in ("rolling_days",) if old.get(key, _DAYS) != _DAYS}
    named = set(_tools_in(part))
    for key in ("tool_calls", "tool_repeats"):
        counts = old.get(key)
        if isinstance(counts, dict) and (own := {n: counts[n] for n in counts if n in named}):
            held[key] = own
    return {**held, **part}


def _tools_in(part: Mapping[str, Json]) -> Iterator[str]:
    patterns = part.get("patterns")
    for one in (part, *(patterns.values() if isinstance(patterns, dict) else ())):
        tools = one.get("tools") if isinstance(one, dict) else None
        yield from tools if isinstance(tools, list) else ()


def _has_rules(part: Mapping[str, Json]) -> bool:
    patterns = part.get("patterns")
    if not isinstance(patterns, dict):
        return True  # for its reader to refuse
    own = (one.get("rules") for one in patterns.values() if isinstance(one, dict))
    return bool(part.get("rules") or any(own))
