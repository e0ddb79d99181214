"""The trace of a run: its steps as proposal, ruling, person and execution, and how it ended.

Everything is derived from the run's rows and independent of the reader, so that one rendering
serves every viewer.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from agents import results
from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.limits import ATTEMPTS, Limits, Spent, active
from agents.core.money import PRICED_IN, format_money, format_sums, with_unit
from agents.core.requests import ENDED, EffectState, EscalationState, Json, RunState
from agents.core.reviews import Touch
from agents.engine.commit import turn_of
from agents.engine.tools.attention import failed_letter, is_told_of, letters_sent, untold_effects
from agents.engine.turns.answering import is_untaken
from agents.models import Effect, Escalation, KillSwitch, Run, Step
from agents.policies.words import end_sentence
from agents.results import agent_words, answer_after_block, words_after_block
from agents.runs.changes import ActionStage
from agents.runs.listing import Closing, chip_of, closings, waits_of
from agents.runs.outage import outage_of_run
from agents.runs.pattern_parts import ABOVE
from agents.runs.turns import RunTurn, busy_since, turns_of
from agents.sdk.desk import DESKS, tool_title, tools_at
from agents.sdk.desk_tools import fill, with_subject
from agents.shell.event_words import name_of, stopped_by_hand, with_islands, with_name
from agents.shell.formats import EMAIL_FAILED, as_html, duration, thousands, why_untold
from agents.tools import ask_in_words, call_in_words

_TURNS = 25  # on one page, and in one live update
_TIGHT = 80  # percent of a limit
_BAD_ENDS = frozenset({RunState.STOPPED, RunState.FAILED})


def run_page(run: Run, *, before: int | None = None) -> dict[str, Json]:
    """Return the template context for the live part of a run's page; `before` as in `trace`."""
    page = trace(run, before=before)
    part, read = ("", None) if run.is_emptied else ABOVE.get(run.pattern, ("", None))
    waits = run.state == RunState.QUEUED and run.wake_at
    return {
        "run": run,
        "page": page,
        "has_ended": run.state in ENDED,
        "is_older": bool(page["shown"]) and page["shown"][-1].number < len(page["turns"]),
        "newer": run.launched_again.first() if run.state in ENDED else None,
        "outage": outage_of_run() if waits else None,
        "part": part,
        "above": read(page["steps"], timezone.now()) if read else {},
    }


def trace(run: Run, *, at: datetime | None = None, before: int | None = None) -> dict[str, Any]:
    """Return a run with its steps, escalations and effects, in at most eight queries.

    Shows its newest turns, or those before the turn number `before`.
    """
    now = at or timezone.now()
    steps = list(run.steps.order_by("position"))
    people = ("decided_by", "claimed_by", "approval__by")
    held = {e.step_id: e for e in run.escalations.select_related(*people)}
    for step in steps:
        if step.pk in held:
            held[step.pk].step = step  # read already
    effects = {effect.step_id: effect for effect in run.effects.all()}
    limits = run.limits
    summary = results.result(run, steps)
    turns = (
        []
        if run.is_emptied
        else turns_of(
            run.desk,
            steps,
            held,
            effects,
            now,
            blocks=summary.get("blocks", []),
            stopped=_stopped_turns(run, steps),
            is_over=run.state in ENDED,
            errors_fail=limits.reference.errors_fail,
        )
    )
    spent, ending = _spending(steps), _ending_of(run, turns)
    open_ones = [e for e in held.values() if e.state == EscalationState.OPEN]
    closed, is_busy = closings([run]), run.state == RunState.RUNNING
    waited = sum(_wait_seconds(one, now) for one in held.values())
    end = _end(run, turns, closed) if run.state in _BAD_ENDS else ""
    waits = "" if open_ones else waits_of([run]).get(run.pk, "")
    lost = _lost(effects.values(), run)
    deed = _deed_of(run, turns, effects.values())
    doing = "Not begun yet" if run.state == RunState.QUEUED else "In progress"
    doing = f"In progress: {turns[-1].title}" if turns else doing
    headline = _headline(
        run,
        f"{deed}{_less(turns)}" if deed else "",
        end or ending["record"] or end_sentence(run.stop_reason) or waits or doing,
        asks=open_ones[0] if open_ones else None,
        question=lost[0][1] if lost else "",
    )
    # What the agent wrote never stands without the record.
    said = () if ending["words"] or ending["note"] else (deed, headline)
    record = _after(ending["record"], *said)
    on_page = turns[: before - 1 if before and 1 < before <= len(turns) else None][-_TURNS:]
    meters = [] if run.is_emptied else _meters(limits, steps, spent, turns)
    return {
        "run": run,
        "steps": steps,
        "turns": turns,
        "shown": on_page,
        "meters": meters,
        "is_tight": any(meter["percent"] > _TIGHT for meter in meters),  # a limit is nearly reached
        "end": _after(end, headline),  # why it ended badly, as a sentence, or ""
        "result": summary,
        "ending": ending | {"record": with_islands(record)},
        "waiting": open_ones[0] if open_ones else None,
        "waits": waits,  # for what it waits, if not for a person; "" for nothing
        "headline": headline,  # its outcome so far, in a sentence that is true now
        "way": () if run.is_emptied else _way(turns, effects.values()),
        "chosen": _chosen(on_page, is_over=run.state in ENDED),  # the step that is open at first
        "lost": lost,  # calls that no request asks about, and what to find out
        # Sums that no letter states, once the run is over, and why.
        "untold": _untold(run, effects.values()) if run.state in ENDED else ("", ""),
        "seconds": spent.seconds,
        "busy_since": busy_since(steps) if is_busy else None,  # while a call is under way
        "waited": waited,  # seconds spent waiting for people
        "waiting_since": now - timedelta(seconds=waited) if open_ones else None,
        "pending": _pending(steps) if is_busy else None,
        "chip": chip_of(run, closed),
    }


def _stopped_turns(run: Run, steps: Sequence[Step]) -> set[str]:
    """Return the prefixes of turns whose call a kill switch keeps from its agent."""
    untaken = {turn_of(step.key) for step in steps if is_untaken(step)}
    if not untaken or run.state in ENDED:
        return set()
    switches = list(KillSwitch.objects.standing().filter(workspace=run.workspace_id))
    calls = (step for step in steps if step.kind == "review" and turn_of(step.key) in untaken)
    return {
        turn_of(step.key)
        for step in calls
        if any(switch.stops(run, step.asked["action"]["name"]) for switch in switches)
    }


def _pending(steps: Sequence[Step]) -> dict[str, object] | None:
    """Return the newest call without an answer, and how often it was repeated."""
    calls = [step for step in steps if step.kind in ("ask", "use") and step.ended_at is None]
    if not calls:
        return None
    step, tool = calls[-1], calls[-1].asked.get("tool") or "a call"
    again = step.attempts - 1
    most = f" of {ATTEMPTS - 1}" if again < ATTEMPTS else ""
    return {
        "who": "the model" if step.kind == "ask" else tool_title(str(tool)),
        "step": step,
        "again": f"; asked again, {again}{most}" if again else "",
    }


def _wait_seconds(escalation: Escalation, now: datetime) -> float:
    """Return how many seconds a request waited: at most until it expired or its run ended."""
    end = escalation.decided_at or now
    if end == now and escalation.state != EscalationState.OPEN:
        end = min(escalation.expires_at, escalation.run.ended_at or now)
    return (end - escalation.created_at).total_seconds()


def moved_sums(effects: Iterable[Effect]) -> str:
    """Return the sums paid by the ledger, else the number of calls that changed something."""
    done = _done_effects(effects)
    sums = format_sums((e.currency, e.amount_minor) for e in done if e.amount_minor)
    return sums or _calls(len(done))


def _untold(run: Run, effects: Iterable[Effect]) -> tuple[str, str]:
    """Return the sums of this run, or of one that repeats it, that no letter states, and why."""
    written = {(e.amount_minor, e.currency) for e in effects if _is_letter(e)}
    paid = [e for e in _done_effects(effects) if is_told_of(e.tool)]
    if all((e.amount_minor, e.currency) in written for e in paid):
        return "", ""
    untold = untold_effects(since=run.created_at).filter(run=run)
    left = list(untold.values_list("currency", "amount_minor", failed_letter()))
    if not left:
        return "", ""
    code = EMAIL_FAILED if any(has_failed for *_, has_failed in left) else run.stop_reason
    sums = format_sums((currency, minor) for currency, minor, _ in left if minor is not None)
    return sums or _calls(len(left)), why_untold(code, letters_sent({run.pk}).get(run.pk, ()))


def _done_effects(effects: Iterable[Effect]) -> list[Effect]:
    return [e for e in effects if e.state == EffectState.DONE and not _is_letter(e)]


def _calls(count: int) -> str:
    return with_unit(count, "calls") if count else ""


def _is_letter(effect: Effect) -> bool:
    tool = tools_at(effect.run.desk).get(effect.tool)  # None: its desk is not installed
    return effect.state == EffectState.DONE and bool(tool and tool.letter)


def _lost(effects: Iterable[Effect], run: Run) -> list[tuple[Effect, str]]:
    """Return the calls of unknown outcome that an ended run can no longer ask about."""
    lost = [e for e in effects if e.state == EffectState.UNKNOWN and run.state in ENDED]
    return [(effect, _question(effect, run.subject_label)) for effect in lost]


def _question(effect: Effect, subject: str) -> str:
    action = {"kind": "tool", "name": effect.tool, "args": effect.args}
    amount = format_money(effect.amount_minor, effect.currency) if effect.amount_minor else ""
    return ask_in_words(
        effect.run.desk, EFFECT_UNKNOWN.stored, action, amount=amount, subject=subject or "nobody"
    )


def _end(run: Run, turns: Sequence[RunTurn], closed: Mapping[UUID, Closing]) -> str:
    """Return why a run ended badly, in our words or else those of the blocking rule."""
    if by_hand := stopped_by_hand(run):
        return by_hand
    code = run.stop_reason.partition(":")[2]
    rulings = [ruling for turn in turns for ruling in (turn.ruling, turn.again) if ruling]
    sentences = [str(ruling["sentence"]) for ruling in rulings if ruling["reason"] == code]
    closing = closed[run.pk].sentence if run.pk in closed else ""
    # A blocked call does not end an external agent's run, so the reason of the end names none.
    blocked = [turn for turn in turns if turn.ruling and turn.ruling["verdict"] == "block"]
    calls = sum(turn.writes for turn in blocked) if run.agent_id else 0
    before = f" Before that, the policy blocked {with_unit(calls, 'calls')}." if calls else ""
    return f"{end_sentence(run.stop_reason, sentences[-1] if sentences else '')}{before}{closing}"


def _spending(steps: Sequence[Step]) -> Spent:
    return Spent(
        seconds=active(step.span for step in steps),
        tokens=sum(s.tokens_in + s.tokens_out + s.tokens_lost for s in steps),
        cost_micro_usd=sum(step.cost_micro_usd or 0 for step in steps),
    )


def _meters(
    limits: Limits, steps: Sequence[Step], spent: Spent, turns: Sequence[RunTurn]
) -> list[dict[str, Any]]:
    """Return how much of each budget is used; the time ticks while a call is under way."""
    calls = sum(step.kind == "use" for step in steps)
    turned = [turn for turn in turns if turn.name.isdigit()]
    told_of: list[tuple[str, Any, Any, Callable[[Any], str]]] = [
        *([("Steps", len(turned), limits.max_steps, thousands)] if turned else []),
        ("Tool calls", calls, limits.max_tool_calls, thousands),
        ("Working time", spent.seconds, limits.max_seconds, duration),
        ("Tokens", spent.tokens, limits.max_tokens, thousands),
        (f"Cost in {PRICED_IN}", spent.cost_micro_usd, limits.max_cost_micro_usd, _usd),
    ]
    return [
        {
            "name": name,
            "used": form(used),
            "most": form(most),
            "percent": round(min(100 * used / most, 100), 1),
            "is_time": form is duration,
        }
        for name, used, most, form in told_of
        if most
    ]


def _usd(micro: int) -> str:
    return f"{micro / 1_000_000:,.3f}"


# The outcome of a run so far: its headline, and the way of its money.
_GOES_ON = {
    RunState.DONE: "",
    RunState.STOPPED: ", then the run was stopped",
    RunState.FAILED: ", then the run failed",
}
_SENTENCE = re.compile(r"(.{12,}?[.?!])(?: (?=[A-Z“]).*)?", re.DOTALL)


def _deed_of(run: Run, turns: Sequence[RunTurn], effects: Collection[Effect]) -> str:
    """Return what was carried out, as a sentence without its end; "" for nothing."""
    done = _done_effects(effects) or [e for e in effects if _is_letter(e)]
    if not done:
        return ""
    if len(done) > 1:
        return f"{moved_sums(done) or _calls(len(done))} carried out in {len(done)} calls"
    (effect,) = done
    turn = next((one for one in turns if one.effect and one.effect.pk == effect.pk), None)
    tool = tools_at(run.desk).get(effect.tool)
    if turn is None or tool is None:  # erased, archived, or of a desk that is not installed
        return f"{moved_sums(done) or 'An email'} carried out"
    review = next((step.reply for step in turn.steps if step.kind == "review"), None)
    words = call_in_words(run.desk, {"name": effect.tool, "args": effect.args}, review)
    text = fill(tool.after or f"{tool.title}: carried out.", with_subject(words, name_of(run)))
    return with_name(text, run).removesuffix(".")


def _less(turns: Sequence[RunTurn]) -> str:
    """Return how much less was paid than the agent asked for, if one call paid; else ""."""
    paid = [(turn.money, turn.effect) for turn in turns if turn.money and turn.effect]
    done = [(asked, effect) for asked, effect in paid if effect.state == EffectState.DONE]
    if len(done) != 1:
        return ""
    ((currency, asked), effect) = done[0]
    less = asked - (effect.amount_minor or 0)
    is_less = less > 0 and currency == effect.currency
    return f", {format_money(less, currency)} less than asked" if is_less else ""


def _headline(
    run: Run, deed: str, otherwise: str, *, asks: Escalation | None, question: str
) -> str:
    """Return a run's outcome so far, always true; `otherwise` if nothing was carried out."""
    if asks:
        question = f"A person is asked: {asks.in_words(name_of(run) or 'nobody')}"
    if question:
        return f"{deed}. {question}" if deed else question
    if deed:
        return deed + _GOES_ON.get(RunState(run.state), "; the run goes on")
    first = _SENTENCE.fullmatch(otherwise)
    return (first[1] if first else otherwise).removesuffix(".")


def _after(text: str, *said: str) -> str:
    """Return a text without its first sentence, if the headline has said that."""
    for one in filter(None, said):
        text = text.removeprefix(f"{one}.").removeprefix(f"{one}?")
    return text.strip()


def _way(turns: Sequence[RunTurn], effects: Iterable[Effect]) -> Sequence[ActionStage]:
    """Return the newest call that paid, or would, from the agent to the email; () without one."""
    asked = [turn for turn in turns if turn.stages and turn.writes]
    paid = [turn for turn in asked if turn.effect and turn.effect.state == EffectState.DONE]
    if not asked:
        return ()
    turn = (paid or asked)[-1]
    sums = [(turn.effect.amount_minor, turn.effect.currency)] if turn.effect else []
    told = [
        ActionStage(
            "Emailed", "revise", "mail", format_money(minor, currency), "once", one.settled_at
        )
        for one in effects
        for minor, currency in sums
        if minor and _is_letter(one) and (one.amount_minor, one.currency) == (minor, currency)
    ]
    return (*turn.stages, *told[:1])


def _chosen(turns: Sequence[RunTurn], *, is_over: bool) -> RunTurn | None:
    """Return the step to read first: the newest with a person, else with more than a line."""
    asked = [turn for turn in turns if turn.escalation] or [turn for turn in turns if turn.opens]
    return next(reversed(asked or (turns if is_over else ())), None)


# How a run ended: the console's record, then the agent's words, and its sources.
LONGEST = 6000  # characters shown of the agent's words


def _ending_of(run: Run, turns: Sequence[RunTurn]) -> dict[str, Any]:
    """Return the two parts of a run's end, each "" if there is none, and its sources."""
    after_block = answer_after_block(run)
    answer = after_block or (run.outcome if isinstance(run.outcome, dict) else {})
    words = agent_words(run) or words_after_block(run)
    is_cut = len(words) > LONGEST and turns
    return {
        "record": with_name(str(answer.get("answer", "")), run),
        "is_after_block": bool(after_block),  # that is no result
        "note": "" if words else str(answer.get("note", "")),
        "approved_by": str(answer.get("approved_by", "")),
        "words": as_html(f"{words[:LONGEST]} …" if len(words) > LONGEST else words),
        "cut_at": turns[-1].number if is_cut else None,  # the turn that has the whole text
        "read": list(_read(run, turns)) if words else (),
    }


def _read(run: Run, turns: Sequence[RunTurn]) -> Iterator[dict[str, object]]:
    """Yield the steps that only read, and whether a result has words of an outsider."""
    desk = DESKS[run.desk]
    for turn in turns:
        for step in turn.steps:
            if step.kind != "use" or step.failed or not isinstance(step.reply, dict):
                continue
            name = str(step.asked["tool"])
            known, declared = desk.all_tools.get(name), desk.tools.get(name)
            if known is None or known.touch is not Touch.READ:
                continue
            args = call_in_words(run.desk, {"name": name, "args": step.asked["args"]})
            about = [args[key] for key in args if not declared or key != declared.subject]
            yield {
                "number": turn.number,
                "title": turn.title,
                "about": ", ".join(about),
                "is_outside": bool(declared and declared.outside),
            }
