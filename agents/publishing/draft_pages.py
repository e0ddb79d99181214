"""The page of a draft: its fields, what it changes, and what a second admin answers."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial, wraps
from itertools import starmap
from typing import Any, TypeAlias
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from agents.core.decisions import Tier, Tiers
from agents.core.limits import ANY_TOOL, LIMITS, BadPolicy, Limits, read_limits, strict
from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    is_currency,
    minor_of_text,
    plain_amount,
    with_unit,
)
from agents.core.redact import TREATMENTS
from agents.core.requests import Json
from agents.core.reviews import ReviewResult
from agents.models import PolicyDraft, Step
from agents.policies.cases import BadCase, PolicyCase, changed_side, judge_case, shipped_cases
from agents.policies.words import floor_of, words_of
from agents.publishing import drafts, trials
from agents.publishing.faults import new_faults
from agents.publishing.pages import show_policy, version_in
from agents.publishing.trial_pages import headline
from agents.publishing.versions import admins_of, limits_of, needs_second, readable
from agents.publishing.whatif import rulings_again
from agents.publishing.words import CAPS, MASKED, WORDS, differences
from agents.sdk.adjustments import BadPatch, OpenField, argument_fields, changed_fields
from agents.sdk.desk import DESKS, Desk, tool_title, tools_at
from agents.sdk.values import BadArguments, BadValue, Money, read_stored
from agents.shell import access
from agents.shell.formats import RULING_ROLES, desk_title
from agents.shell.pages import BadForm, action, only, page, whole_number
from agents.shell.refusal import Refused


@action
def draft_begin(request: HttpRequest) -> HttpResponse:
    user = access.person(request)
    workspace = access.workspace_to(access.DRAFT, user, request.POST.get("workspace", ""))
    try:
        only(request.POST, {"csrfmiddlewaretoken", "workspace", "floor", "version"})
        mends, number = "floor" in request.POST, request.POST.get("version", "")
        older = version_in(workspace, number) if number else None
        document = limits_of(older.document).as_json() if older else None
        about: dict[str, Any] = {"by": user, "at": timezone.now(), "mends": mends}
        begun = drafts.begin_draft(workspace=workspace, document=document, **about)
    except (BadForm, Refused) as no:
        return show_policy(request, sentence=str(no), status=422)
    return redirect("policy-draft", begun.pk)


def of_draft(show: Callable[[HttpRequest, PolicyDraft], HttpResponse]) -> Callable[..., Any]:
    """Give a page of a draft to the admins of its workspace, or say that it may be gone."""

    @wraps(show)
    def shown(request: HttpRequest, pk: int) -> HttpResponse:
        try:
            held = access.draft_to_change(access.person(request), pk)
        except Http404:
            said = f"You can open no draft {pk}: it may have been published or discarded."
            return show_policy(request, sentence=said, status=404)
        return show(request, held)

    return shown


@page
@of_draft
def draft(request: HttpRequest, held: PolicyDraft) -> HttpResponse:
    return _draft(request, held)


@action
@of_draft
def draft_change(request: HttpRequest, held: PolicyDraft) -> HttpResponse:
    """Save a draft, and do what its button says."""
    user, given = access.person(request), request.POST
    who: dict[str, Any] = {"by": user, "at": timezone.now()}
    part, do = given.get("part", ""), given.get("do") or ("save" if "to" in given else "")
    fields = [one for one in fields_of(held.document) if one.group == part]
    try:
        drafts.check_seen(held, given.get("seen", ""))
        only(given, {*_OF_FORM, *(one.name for one in fields)})
        if held.asked_at and "part" in given:  # of a form that was open when somebody asked
            raise Refused("asked", "It waits for a second admin. Take it back to change it.")
        if do in ("save", "ask", "publish", "try") and not held.asked_at:
            document, bad = _read(held.document, fields, given)
            if bad:
                return _draft(request, held, bad=bad, status=422)
            drafts.save_draft(held, document=document, reason=given.get("reason", ""), **who)
        if do == "try":
            days = whole_number(given.get("days", str(trials.DAYS[1]))) or 0
            return redirect("policy-trial", trials.ask_trial(held, days=days, **who).pk)
        if do == "ask":
            drafts.ask_second(held, **who)
        elif do == "publish":
            drafts.publish_draft(held, **who)
        elif do == "rebase":
            drafts.rebase_draft(held, **who)
        elif do == "back":
            drafts.take_back(held, by=user)
        elif do == "discard":
            drafts.discard_draft(held, by=user)
        if do in ("publish", "discard"):
            return redirect(f"{reverse('policy')}?workspace={held.workspace.slug}")
    except (BadForm, Refused) as no:
        is_older = isinstance(no, Refused) and no.code in ("asked", "changed")
        typed = QueryDict() if is_older else given
        again = partial(_draft, sentence=str(no), typed=typed, status=422)
        return of_draft(again)(request, held.pk)
    query = urlencode({"part": given.get("to", part)})
    place = "#group" if "to" in given else ""  # where one goes on from by keyboard
    return redirect(f"{reverse('policy-draft', args=[held.pk])}?{query}{place}")


_OF_FORM = {"csrfmiddlewaretoken", "do", "to", "part", "seen", "reason", "days"}


# Tiers of a draft, and counts by tool, a line each, as an admin types them.


_TIER = re.compile(
    r"(?:up to (?P<up_to>[\d.]+)|(?P<last>above)): (?P<team>any|[\w-]+)"
    r"(?:, (?P<people>\d) people)?(?:, within (?P<within>\d{1,6}) min)?",
    re.ASCII,
)
FORM = "A line for each: “up to 1000.00: any, within 30 min”, the last “above: leads, 2 people”."


@dataclass(frozen=True)
class TierLines:
    """The tiers of a desk in one currency; no line is any reviewer."""

    name: str
    unit: str  # a currency
    typed: Tiers
    kind: str = "lines"

    def text(self, tiers: Any) -> str:
        return "\n".join(map(self._line, tiers))

    def _line(self, tier: Tier) -> str:
        up_to = tier.up_to_minor and f"up to {plain_amount(tier.up_to_minor, self.unit)}"
        people = f", {tier.people} people" if tier.people > 1 else ""
        within = f", within {tier.answer_within} min" if tier.answer_within else ""
        return f"{up_to or 'above'}: {tier.team or 'any'}{people}{within}"

    def read(self, text: str) -> list[Json]:
        """Return the tiers as a document has them. Raises BadPatch."""
        lines = filter(None, (" ".join(line.split()) for line in text.split("\n")))
        return list(starmap(self._tier, enumerate(lines, 1)))

    def _tier(self, number: int, line: str) -> Json:
        found = _TIER.fullmatch(line)
        if found is None:
            raise BadPatch(self.name, f"Line {number} is no tier. {FORM}")
        team, within = found["team"], found["within"]
        try:
            up_to = None if found["last"] else minor_of_text(found["up_to"], self.unit)
        except BadAmount as error:
            raise BadPatch(self.name, f"Line {number}: {error}.") from None
        people = int(found["people"] or 1)
        tier = Tier(up_to, "" if team == "any" else team, people, int(within) if within else None)
        empty = asdict(Tier())
        return {key: value for key, value in asdict(tier).items() if value != empty[key]}


_COUNT = re.compile(r"(?P<tool>\*|\w+): (?P<count>\d{1,6})", re.ASCII)
COUNT_FORM = "A line for each tool: “its_name: 2”; for any other, “*: 3”."


@dataclass(frozen=True)
class CountLines:
    """How often each tool may be called."""

    name: str
    label: str
    typed: Mapping[str, int]
    tools: Container[str]
    kind: str = "lines"
    unit: str = ""

    def text(self, counts: Any) -> str:
        return "\n".join(f"{tool}: {count}" for tool, count in counts.items())

    def read(self, text: str) -> dict[str, Json]:
        """Return the counts by tool. Raises BadPatch."""
        counts: dict[str, Json] = {}
        for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
            found = _COUNT.fullmatch(line)
            if found is None or found["tool"] in counts:
                raise BadPatch(self.name, f"{self.label}: {line[:80]!r} is no line. {COUNT_FORM}")
            if found["tool"] != ANY_TOOL and found["tool"] not in self.tools:
                raise BadPatch(self.name, f"{self.label}: there is no tool {found['tool']!r}.")
            counts[found["tool"]] = int(found["count"])
        return counts


@dataclass(frozen=True)
class _Field:
    """One limit, cap or switch of a draft; `open` reads and shows what is typed."""

    name: str  # its place in the document, as in the fault about it
    group: str
    label: str
    help: str
    open: OpenField | TierLines | CountLines | None = None  # None: a switch
    is_on: bool = False  # of a switch: whether the name is in force
    locked: str = ""  # why a rule cannot be switched off

    @property
    def text(self) -> str:
        """Return what its control holds; of a switch that is on, "on"."""
        return self.open.text(self.open.typed) if self.open else "on" if self.is_on else ""


def fields_of(document: Json) -> list[_Field]:
    """Return what can be changed, in groups that fit one form."""
    places = Counter[str]()
    fields = []
    for one in _fields_of(document):
        nth, places[one.group] = places[one.group] // _MOST_FIELDS, places[one.group] + 1
        fields.append(replace(one, group=f"{one.group}, {nth + 1}") if nth else one)
    return fields


_MOST_FIELDS = 40  # of a form, which has a few of its own
_About: TypeAlias = tuple[str, str, str, str]  # a field's name, group, label and help


def _fields_of(document: Json) -> Iterator[_Field]:
    desks = {name: part for name, part in document.get("desks", {}).items() if name in DESKS}
    for name, part in desks.items():
        yield from _limits(DESKS[name], part)
        yield from _caps(name, part)
        yield from _tiers(name, part, document.get("tiers") or {})
        own = {**dict.fromkeys(_COUNTS), **part}
        yield from _console(f"desks.{name}.", f"{desk_title(name)}, tools", own, name)
        yield from _switches(name, part)
    for name, part in desks.items():
        for pattern, own in part.get("patterns", {}).items():
            place, group = f"desks.{name}.patterns.{pattern}.", f"{desk_title(name)}, {pattern}"
            yield from _console(place, group, own, name)
    for topic, words in WORDS.items():
        held = {key: document.get(key, one.default) for key, one in words.items()}
        yield from _console("policy.", topic, held)


def _console(place: str, group: str, held: Mapping[str, Json], desk: str = "") -> Iterator[_Field]:
    """Yield the console's limits but tiers; switches are a desk's `off`."""
    for key in [key for key in held if key in LIMITS and LIMITS[key].label]:
        one, value, name = LIMITS[key], held[key], f"{place}{key}"
        about = name, group, one.label, one.help
        if isinstance(value, bool):
            yield _Field(*about, is_on=value)
        elif isinstance(value, int):
            unit = {"type": "integer", "unit": one.unit}
            yield _opened(about, "number", unit, value, least=one.least or 0, most=MAX_MINOR)
        elif isinstance(value, list | tuple) and name != f"desks.{desk}.off":
            among = (*tools_at(desk),) if desk and key != "late" else ()
            yield _opened(about, "lines", _NAMES, [*value], least=0, most=100, choices=among)
        elif key in _COUNTS:
            counted = CountLines(name, one.label, value or {}, tools_at(desk))
            yield _Field(name, group, one.label, f"{one.help} {COUNT_FORM}", counted)
        elif key == "redaction" and isinstance(value, dict):
            for kind, treatment in value.items():
                label = f"{MASKED[kind][0].upper()}{MASKED[kind][1:]}"
                of_kind = f"{name}.{kind}", group, label, one.help
                yield _opened(of_kind, "choice", {}, treatment, choices=TREATMENTS)


_COUNTS = ("tool_calls", "tool_repeats")
_NAMES: Json = {"type": "array", "items": {"type": "string"}}


def _opened(about: _About, kind: str, schema: Json, value: Any, **more: Any) -> _Field:
    """Return a field; `more` has its bounds, and the typed value if it is another."""
    name, _, label, _ = about
    known = {"typed": value, "called": label, **more}
    return _Field(*about, OpenField(name, kind, schema, value, **known))


def _tiers(desk: str, part: Mapping[str, Json], held: Mapping[str, Json]) -> Iterator[_Field]:
    of = held.get(desk, {})
    for currency in dict.fromkeys((*of, *part.get("caps", {}), *DESKS[desk].currencies)):
        tiers = tuple(Tier(**one) for one in of.get(currency, ()))
        opened = TierLines(f"policy.tiers.{desk}.{currency}", currency, tiers)
        group = f"{desk_title(desk)}, approvers"
        yield _Field(opened.name, group, LIMITS["tiers"].label, FORM, opened)


def _limits(desk: Desk, part: Mapping[str, Json]) -> Iterator[_Field]:
    held, kind = part.get("limits", {}), desk.limits_type
    for one in desk.limit_fields:
        value, most = held.get(one.name, one.default), one.most
        try:
            typed = getattr(read_stored(kind, {one.name: value}), one.name) if kind else None
        except BadValue:
            continue
        opens = "money" if is_currency(one.unit) else "number"
        least: int | Money = 0
        if isinstance(typed, Money):
            opens, least = "money", Money(0, typed.currency)
            most = most or Money(MAX_MINOR, typed.currency)
        elif isinstance(typed, tuple):
            opens, typed, most = "lines", list(typed), 100
        elif isinstance(typed, bool) or not isinstance(typed, int):
            continue
        elif most is None:
            most = MAX_MINOR
        about = f"desks.{desk.name}.limits.{one.name}", desk_title(desk.name), one.label, one.help
        schema = {**one.schema, "unit": one.unit}
        yield _opened(about, opens, schema, value, typed=typed, least=least, most=most)


def _caps(desk: str, part: Mapping[str, Json]) -> Iterator[_Field]:
    for currency, held in part.get("caps", {}).items():
        group = f"{desk_title(desk)}, {currency} per day (UTC)"
        unit = {"type": "integer", "unit": currency}
        for key, minor in held.items():
            about = f"desks.{desk}.caps.{currency}.{key}", group, CAPS[key], ""
            yield _opened(about, "money", unit, minor, least=0, most=MAX_MINOR)


def _switches(desk: str, part: Mapping[str, Json]) -> Iterator[_Field]:
    """Yield the tools and rules of a desk that an admin may switch, with those that are off."""
    own, off, title = DESKS[desk].part(), part.get("off", ()), desk_title(desk)
    for tool in part.get("tools", ()):
        about = f"desks.{desk}.tools.{tool}", f"{title}, tools", tool_title(tool), ""
        yield _Field(*about, is_on=tool not in off)
    rules = part.get("rules", ())
    here = strict({desk: {**part, "patterns": {}}}).of("", desk)
    for rule in dict.fromkeys((*rules, *own["rules"])):
        why = floor_of(DESKS[desk], rule, here) if rule in rules else ""
        about = f"desks.{desk}.rules.{rule}", f"{title}, rules", *words_of(rule)
        yield _Field(*about, is_on=rule in rules, locked=why)


def _read(document: Json, fields: list[_Field], given: QueryDict) -> tuple[Json, dict[str, str]]:
    """Return a draft's document as typed, and the faults of what cannot be read, by field."""
    changed, bad = deepcopy(document), dict[str, str]()
    for one in fields:
        if one.open is None:
            _switch(changed, one, is_on=bool(one.locked) or one.name in given)
            continue
        text = given.get(one.name, one.text).strip().replace("\r\n", "\n")
        if text == one.text:
            continue
        try:
            value = one.open.read(text)
            if isinstance(one.open, OpenField) and isinstance(value, int):
                one.open.check(value)
            set_value(changed, one, value)
        except BadPatch as no:
            bad[one.name] = str(no)
    if changed.get("tiers"):  # a currency without any is left out
        held = {
            name: {key: of[key] for key in of if of[key]} for name, of in changed["tiers"].items()
        }
        changed["tiers"] = {name: of for name, of in held.items() if of} or None
    return changed, bad


def set_value(document: Json, field: _Field, value: Json) -> None:
    """Set a value at its place in the document; the console's limits are at the top."""
    *above, key = field.name.removeprefix("policy.").split(".")
    for name in above:
        document[name] = document = document.get(name) or {}
    document[key] = value


def _switch(document: Json, field: _Field, *, is_on: bool) -> None:
    """Switch a tool on or off, or a rule, or a limit that is yes or no."""
    top, desk, what, name = (*field.name.split(".", 3), "", "")[:4]
    if top == "policy" or what == "patterns":
        if is_on != field.is_on:
            set_value(document, field, is_on)
        return
    part = document["desks"][desk]
    key, is_named = ("off", not is_on) if what == "tools" else ("rules", is_on)
    names = list(part.get(key, ()))
    if is_named and name not in names:
        part[key] = [*names, name]
    elif not is_named and name in names:
        part[key] = [one for one in names if one != name]


def _draft(
    request: HttpRequest,
    held: PolicyDraft,
    *,
    sentence: str = "",
    bad: Mapping[str, str] | None = None,
    typed: QueryDict | None = None,
    status: int = 200,
) -> HttpResponse:
    user, in_force = access.person(request), readable(held.workspace.policy)
    typed = request.POST if typed is None else typed
    limits, faults, others = None, dict(bad or {}), list[str]()
    try:
        limits = limits_of(held.document)
    except Refused as no:
        others = [str(no)]
    for one in new_faults(limits, in_force) if limits else ():
        faults.setdefault(one.field, one.sentence)
    base, stale = readable(held.base), drafts.is_stale(held)
    fields = fields_of(held.document)
    parts = list(dict.fromkeys(field.group for field in fields))
    part = request.POST.get("part") or request.GET.get("part", "")
    part = part if part in parts else next(iter(parts), "")
    rows: list[tuple[_Field, str, str]] = []
    for field in [field for field in fields if field.group == part]:
        kept = "" if typed and not field.open and not field.locked else field.text
        text = typed.get(field.name, kept)
        rows.append((field, text, faults.pop(field.name, "")))
    tried = held.trials.exclude(outcome__has_key="failed")
    shown = {
        "nav": "policy",
        "draft": held,
        "parts": parts,
        "part": part,
        "fields": rows,
        "others": [*others, *faults.values()],
        "sentence": sentence,
        "stale": stale,
        "theirs": differences(base, in_force) if stale and base and in_force else [],
        "changes": differences(base, limits) if base and limits else [],
        "example": changed_side(in_force, limits) if in_force and limits and not stale else None,
        "mine": held.by_id == user.pk,
        "needs_second": needs_second(held.workspace),
        "others_left": admins_of(held.workspace).exclude(user=user).exists(),
        "reason": typed.get("reason", held.reason),
        "longest": drafts.LONGEST,
        "trial": (trial := tried.select_related("by", "policy").order_by("-pk").first()),
        "tried": trial and headline(trial),
    }
    return render(request, "policy/draft.html", shown, status=status)


# One call, judged under a draft and under the version in force. Nothing runs.


_RUN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ARGUMENT = "args."  # before the name of an argument's field


_Judge: TypeAlias = Callable[[Sequence[Limits]], Sequence[ReviewResult]]  # under whole versions
_Tried: TypeAlias = tuple[dict[str, Any], _Judge]  # what is tried, for the page


@page
@of_draft
def try_one(request: HttpRequest, held: PolicyDraft) -> HttpResponse:
    """Show a draft's admins how both versions judge one call."""
    user, given = access.person(request), request.GET
    desks = [name for name in held.document.get("desks", {}) if name in DESKS]
    cases = {name: shipped_cases(DESKS[name]) for name in desks}
    shown: dict[str, Any] = {
        "nav": "policy",
        "draft": held,
        "cases": [
            (desk_title(name), [(f"{name}:{one.line}", one.name) for one in of])
            for name, of in cases.items()
        ],
        "case": given.get("case", ""),
        "run": given.get("run", ""),
    }
    try:
        if shown["run"] or shown["case"]:
            call, judge = _of_run(user, held, given) if shown["run"] else _of_case(cases, given)
            shown["call"] = call  # with what was typed, also if that is refused
            shown["sides"] = _sides(held, call["desk"], judge)
    except (BadArguments, BadCase, BadPatch, BadPolicy, Refused) as no:
        shown["sentence"] = str(no)
    return render(request, "policy/try.html", shown, status=422 if "sentence" in shown else 200)


def _of_case(cases: Mapping[str, Sequence[PolicyCase]], given: Mapping[str, str]) -> _Tried:
    desk, _, line = given["case"].partition(":")
    case = next((one for one in cases.get(desk, ()) if str(one.line) == line), None)
    if case is None:
        raise Refused("no_case", "No desk of this draft has this case.")
    tool, args = tools_at(desk).get(str(case.action.get("name"))), case.action.get("args", {})
    fields = argument_fields(tool.arguments, args) if tool else []
    named = {one.name: _ARGUMENT + one.name for one in fields}
    typed = {name: given[field] for name, field in named.items() if field in given}

    def judge(under: Sequence[Limits]) -> Sequence[ReviewResult]:
        tried = case
        if tool and (patch := changed_fields(fields, typed, args)):
            tool.read({**args, **patch})
            tried = replace(case, action={**case.action, "args": {**args, **patch}})
        return [judge_case(tried, one) for one in under]

    texts = [(named[one.name], one, typed.get(one.name, one.text(one.typed))) for one in fields]
    return {"title": case.name, "desk": desk, "fields": texts}, judge


def _of_run(user: User, held: PolicyDraft, given: Mapping[str, str]) -> _Tried:
    found, run = _RUN.search(given["run"].lower()), None
    with suppress(Http404):
        run = access.run_for(user, UUID(found[0])) if found else None
    if run is None or run.workspace_id != held.workspace_id:
        raise Refused("no_run", "No run of this workspace has this address or number.")
    steps = list(run.steps.order_by("position"))
    reviews = [one for one in steps if one.kind == "review" and one.ended_at and one.asked]
    if not reviews:
        raise Refused("no_call", "No call of this run was judged, or its texts are gone.")
    number = given.get("step", "")
    step = next((one for one in reviews if str(one.position) == number), reviews[-1])

    def judge(under: Sequence[Limits]) -> Sequence[ReviewResult]:
        here = [one.of(run.pattern, run.desk) for one in under]
        consented = [one for one in steps if one.kind != "review"]
        [(_, ruled)] = rulings_again(run, [*consented, step], *here)
        if isinstance(ruled, str):
            raise Refused("unknown", f"It cannot be judged again. {ruled}")
        return ruled[1:]

    call = {"title": _title(step), "desk": run.desk, "run": run, "step": step.position}
    return {**call, "steps": [(one.position, _title(one)) for one in reviews]}, judge


def _title(step: Step) -> str:
    name = step.asked["action"].get("name")
    return tool_title(name) if name else "Answer"


def _sides(held: PolicyDraft, desk: str, judge: _Judge) -> list[dict[str, Any]]:
    """Return how each version judges a call: the outcome, each rule's answer, and what flips it."""
    policy = held.workspace.policy
    named = {"In force": policy and policy.document, "This draft": held.document}
    sides = []
    for where, document in named.items():
        [ruled] = judge([read_limits(document)])
        sides.append(
            {
                "where": where,
                "chip": RULING_ROLES[ruled.decision],
                "said": dict.fromkeys(one.sentence for one in (ruled.deciding, *ruled.revisions)),
                "rulings": ruled.as_json()["rulings"],
                "nearest": _nearest(document, desk, judge, ruled),
            }
        )
    return sides


def _nearest(document: Json, desk: str, judge: _Judge, ruled: ReviewResult) -> str:
    """Return the nearest change of a limit that gives another outcome, tried; or ""."""
    tries: list[tuple[int, int, str, Limits]] = []
    places = tuple(f"desks.{desk}.{part}." for part in ("limits", "caps"))
    for field in [one for one in fields_of(document) if one.name.startswith(places)]:
        opened = field.open
        if not isinstance(opened, OpenField) or opened.kind == "lines":
            continue
        now = int(opened.typed)
        seen = [one.observed for one in ruled.rulings if one.limit == now]
        for value in {one + by for one in seen if type(one) is int for by in (-1, 0, 1)}:
            changed = deepcopy(document)
            with suppress(BadPatch, BadPolicy):
                set_value(changed, field, opened.read(opened.text(value)))
                said = f"With “{field.label}” at {with_unit(value, opened.unit)}"
                tries.append((abs(value - now), value, said, read_limits(changed)))
    tries.sort(key=lambda one: one[:2])
    judged = judge([one[-1] for one in tries]) if tries else ()
    for (_, _, said, _), other in zip(tries, judged, strict=True):
        if other.decision != ruled.decision:
            return f"{said}, it would be {RULING_ROLES[other.decision][1].lower()}."
    return ""
