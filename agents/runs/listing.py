"""The list of runs: filters in the address, pages by keyset, and its rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from agents.core.decisions import KINDS
from agents.core.money import format_largest, format_sums
from agents.core.requests import (
    DECIDED,
    WORDS,
    EffectState,
    EscalationState,
    Json,
    ResultKind,
    RunState,
    words_of,
)
from agents.db.run_words import HasWords, WordBeginnings, newest_on_sqlite
from agents.engine.commit import LAST_WORDS
from agents.models import AgentCall, Effect, Escalation, Run
from agents.patterns import PATTERNS
from agents.policies.words import end_sentence, known_ends
from agents.results import agent_words, words_after_block
from agents.sdk.desk import offered
from agents.shell import access
from agents.shell.access import spellings
from agents.shell.event_words import name_of, with_name
from agents.shell.formats import RUN_ROLES, as_line, read_time, spell_out
from agents.shell.listing import Field, Filter, FormField, Keyset, Page, distinct_values, newest
from agents.shell.pages import whole_number
from agents.tools import letter_tools

PAGE = 50
_SHOWN = 120  # characters of what an agent wrote, in the list
_UNSEEN = ("workflow", "simulation", "scope", "before")  # what no row shows
MOST_COUNTED = 99  # runs in a state
FEW = 5000  # runs with some words or in a state whose keys can simply be sorted
LISTENING = "Listening for its agent"
ENDING = "Ending: waiting for what is open in its session"
OUT = "Waiting for its agent to report a call"
ORDER = Keyset("created_at")
_RESULT_ROLES = {WORDS[ResultKind.NOTHING]: "waiting", WORDS[ResultKind.BLOCKED]: "block"}


class RunFilter(Filter):
    fields = (
        Field("text", "Words, subject or run"),
        Field("subject", "Subject (number or key)", "subject_key"),
        Field("desk", "Desk", "desk"),
        Field("state", "State", "state"),
        Field("came_of", "Outcome", "outcome__came_of"),
        Field("pattern", "Pattern", "pattern"),
        Field("launcher", "Launched by"),
        Field("agent", "Opened by the agent", "agent__name"),
        Field("policy", "Policy version", "policy__number", whole_number),
        Field("stop_reason", "How it ended", "stop_reason__startswith"),
        Field("since", "From", "created_at__gte", read_time),
        Field("until", "To", "created_at__lt", read_time),
    )


def fields_of(user: User, wanted: RunFilter) -> list[FormField]:
    """Return the form of the filter, with the choices of a person."""
    return wanted.form(
        desk=[(name, desk.title) for name, desk in offered().items()],
        state=[(state, state.capitalize()) for state in RunState],
        came_of=WORDS.items(),
        pattern=[(name, spell_out(name)) for name in PATTERNS],
        stop_reason=_ends_to_choose(user, wanted.given.get("stop_reason", "")),
    )


def _ends_to_choose(user: User, given: str) -> list[tuple[str, str]]:
    """Return the ends of the person's runs, for a filter; one of another address is among them."""
    came = distinct_values(Run, "stop_reason", access.workspaces_of(user))
    came.add(given)
    known = [one for one in known_ends() if any(end.startswith(one[0]) for end in came)]
    is_other = given and given not in dict(known)
    return [*known, (given, end_sentence(given))] if is_other else known


def count_states(user: User) -> list[tuple[str, str, str]]:
    """Return each state with its title and the number of the person's runs in it, or "99+".

    One query reads at most FEW runs of a state; a number that this cuts short is "".
    """
    homes = ", ".join(str(one) for one in (0, *access.workspaces_of(user)))
    titles = {"": "All"} | {state.value: state.capitalize() for state in RunState}
    counts = []
    for state in titles:
        wanted = f"state = '{state}'" if state else "TRUE"
        read = f"(SELECT workspace_id FROM agents_run WHERE {wanted} LIMIT {FEW}) AS one"  # noqa: S608
        ours = f"SELECT 1 FROM {read} WHERE workspace_id IN ({homes}) LIMIT {MOST_COUNTED + 1}"  # noqa: S608
        counts += [f"(SELECT COUNT(*) FROM {part})" for part in (read, f"({ours}) AS ours")]  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}")
        row = cursor.fetchone()
    return [
        (*one, f"{MOST_COUNTED}+" if n > MOST_COUNTED else "" if read == FEW else str(n))
        for one, read, n in zip(titles.items(), row[::2], row[1::2], strict=True)
    ]


def find_runs(user: User, wanted: RunFilter, before: str = "") -> Page[dict[str, Json]]:
    """Return one page of the person's runs, newest first."""
    matching = wanted.keep(Run.objects.all())
    name = wanted.given.get("launcher")
    if name and not wanted.unreadable:  # by id, so that nothing is read for an unknown person
        known = User.objects.filter(username=name).values_list("pk", flat=True).first()
        matching = matching.none() if known is None else matching.filter(launched_by=known)
    place = ORDER.place(Run, before)
    matching = _search_runs(
        ORDER.after(matching, before),
        wanted.given,
        access.workspaces_of(user),
        after=place[1] if place else None,
    )
    runs = list(matching.select_related("launched_by", "agent").defer(*_UNSEEN))
    shown = ORDER.cut(runs, PAGE)
    return Page(_rows(shown.rows, timezone.now()), shown.older)


def runs_with_words(text: str, workspaces: Sequence[int]) -> list[Run]:
    """Return the newest runs that contain the words of a text, at most a page."""
    matching = _search_runs(Run.objects.all(), {"text": text}, workspaces, after=None)
    return list(matching.defer(*_UNSEEN)[:PAGE])


def _rows(runs: Sequence[Run], now: datetime) -> list[dict[str, Json]]:
    """Return runs with requested and paid amounts, in at most four queries for a page."""
    paid: dict[UUID, list[tuple[str, int]]] = {run.pk: [] for run in runs}
    amounts: dict[UUID, list[tuple[str, int]]] = {run.pk: [] for run in runs}
    letters, closed, waits = letter_tools(), closings(runs), waits_of(runs)
    of = {run.pk: run for run in runs}
    effects = Effect.objects.filter(run__in=runs, state=EffectState.DONE).exclude(tool__in=letters)
    effects = effects.filter(amount_minor__isnull=False)
    for run, currency, minor in effects.values_list("run_id", "currency", "amount_minor"):
        paid[run].append((currency, minor or 0))
    kept = ("run", "currency", "amount_minor", "state", "kind", "action")
    requests = Escalation.objects.filter(run__in=runs).annotate(names=F("review__facts__names"))
    for asked in requests.order_by("pk").only(*kept):
        if asked.amount_minor is not None:
            amounts[asked.run_id].append((asked.currency, asked.amount_minor))
        if asked.state == EscalationState.OPEN:
            asked.run, asked.review = of[asked.run_id], {"facts": {"names": asked.names}}
            waits[asked.run_id] = asked.in_words(name_of(asked.run) or "nobody")
    return [
        {
            "run": run,
            "largest": format_largest(amounts[run.pk]),  # that a person was asked about
            "paid": format_sums(paid[run.pk]),
            "outcome": outcome_of(run, closed, waits),
            "wrote": as_line(agent_words(run), _SHOWN),
            "wrote_after_block": as_line(words_after_block(run), _SHOWN),  # which is no result
            "chip": chip_of(run, closed),
            "seconds": ((run.ended_at or now) - run.created_at).total_seconds(),
        }
        for run in runs
    ]


@dataclass(frozen=True)
class Closing:
    """The outcome of a run's last request, as a sentence and a label."""

    sentence: str
    chip: tuple[str, str]


def closings(runs: Iterable[Run]) -> dict[UUID, Closing]:
    """Return people's answers to the last requests of runs, or that there was none in time."""
    by_stored = {kind.stored: kind for kind in KINDS.values() if kind.ends_run}
    requests = Escalation.objects.filter(
        run__in=[run for run in runs if run.state == RunState.STOPPED],
        kind__in=by_stored,
        state__in=[*DECIDED, EscalationState.EXPIRED],
    )
    rows = requests.values_list("run_id", "decided_by__username", "kind", "state")
    return {
        run: Closing(
            f" {by} {by_stored[kind].what_was_done(state)}.",
            ("human", by_stored[kind].words[EscalationState(state)]),
        )
        if by
        else Closing(f" {by_stored[kind].undone}", RUN_ROLES[RunState.STOPPED])
        for run, by, kind, state in rows
    }


def chip_of(run: Run, closed: Mapping[UUID, Closing]) -> tuple[str, str]:
    """Return role and word of a run's state; a case that a person took has not failed."""
    if _is_listening(run):
        return ("waiting", "Listening")
    role, word = closed[run.pk].chip if run.pk in closed else RUN_ROLES[run.state]
    if run.state != RunState.DONE:
        return role, word
    words = words_of(run.outcome)
    return _RESULT_ROLES.get(words, role), words or word


def _is_listening(run: Run) -> bool:
    """Tell whether a run waits for its external agent's next call, and for no person."""
    return run.state == RunState.WAITING and run.idle_until is not None


def waits_of(runs: Iterable[Run]) -> dict[UUID, str]:
    """Return what runs wait for, without those that wait for people."""
    waiting = [run for run in runs if run.state == RunState.WAITING and run.agent_id]
    texts = {run.pk: LISTENING for run in waiting if _is_listening(run)}
    others = [run.pk for run in waiting if run.pk not in texts]
    if others:
        asks = Escalation.objects.filter(run=OuterRef("pk"), state=EscalationState.OPEN)
        ends = AgentCall.objects.filter(run=OuterRef("pk"), key=LAST_WORDS)
        unasked = Run.objects.filter(~Exists(asks), pk__in=others).annotate(is_ending=Exists(ends))
        rows = unasked.values_list("pk", "is_ending")
        texts.update((pk, ENDING if is_ending else OUT) for pk, is_ending in rows)
    return texts


def outcome_of(run: Run, closed: Mapping[UUID, Closing], waits: Mapping[UUID, str]) -> str:
    """Return a run's outcome in a line: the sentence of its end, or what it waits for.

    `closed` is from `closings`, `waits` from `waits_of`.
    """
    if run.state == RunState.DONE:
        answer = run.outcome.get("answer", "") if isinstance(run.outcome, dict) else ""
        return with_name(str(answer), run) or end_sentence(run.stop_reason)
    if run.state == RunState.WAITING:
        return waits.get(run.pk, "Waiting for a person")
    closing = closed[run.pk].sentence if run.pk in closed else ""
    return f"{end_sentence(run.stop_reason)}{closing}" or "In progress"


def _search_runs(
    runs: QuerySet[Run], given: Mapping[str, str], workspaces: Sequence[int], *, after: UUID | None
) -> QuerySet[Run]:
    """Return a page of the runs that contain the given words, newest first.

    PostgreSQL's index of words has no order. Rare words are found by it and sorted; common ones are
    found in the list's order, where a page fills soon.
    """
    words = [
        WordBeginnings.of(*texts, of_reason=name == "stop_reason")
        for name in ("text", "stop_reason")
        if name in given
        for texts in [spellings(given[name], workspaces) if name == "text" else [given[name]]]
    ]
    if runs.query.is_empty():
        return runs
    if not all(all(one.ways) for one in words):
        return runs.none()
    if not words:
        # In the list's order, a rare state would be looked for in all runs.
        state = given.get("state")
        if state is None or Run.objects.filter(state=state)[: FEW + 1].count() > FEW:
            return newest(runs, workspaces, "created_at", PAGE + 1)
    elif connection.vendor == "sqlite":
        keys = newest_on_sqlite(runs, words, workspaces, after=after, most=PAGE + 1)
        runs = Run.objects.filter(pk__in=keys)
    else:
        runs = runs.filter(*map(HasWords, words))
        ours = runs.filter(workspace__in=workspaces).order_by()
        keys = list(ours.values_list("pk", flat=True)[: FEW + 1])
        if len(keys) > FEW:
            return newest(runs, workspaces, "created_at", PAGE + 1)
        runs = Run.objects.filter(pk__in=keys)
    # Adding 0 hides the column from its index, by which SQLite would read every run.
    page = runs.alias(of=F("workspace") + 0).filter(of__in=workspaces)
    return page.order_by("-created_at", "-pk")[: PAGE + 1]
