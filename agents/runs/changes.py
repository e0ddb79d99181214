"""How an action changed on its way: proposed, revised, approved, executed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.core.requests import GRANTED, EffectState, EscalationState, Json
from agents.engine.commit import UNTAKEN
from agents.models import Effect, Escalation, Step
from agents.sdk.adjustments import Called, label_of, money_of
from agents.sdk.desk import tool_title, tools_at
from agents.sdk.desk_tools import executor_in_words
from agents.shell.formats import ESCALATION_ROLES, rule_title
from agents.tools import argument_in_words, currency_of_argument, names_in


@dataclass(frozen=True)
class ActionStage:
    """A call's main argument at one stage, and who set it."""

    name: str
    role: str
    icon: str
    text: str
    by: str
    at: datetime | None
    is_now: bool = False
    is_ahead: bool = False


def _lead_of(desk: str, action: Json) -> str:
    """Return the main argument: money, else the first that people may change, or ""."""
    args = _args(action)
    if "amount_minor" in args:
        return "amount_minor"
    money = [name for name, value in args.items() if money_of(value)]
    tool = tools_at(desk).get(str(action.get("name", "")))
    names = [*money, *(name for name in (tool.may_change if tool else ()) if name in args)]
    return names[0] if names else ""


def lead_in_words(desk: str, action: Json, left: Mapping[str, Json] | None = None) -> str:
    """Return a call's main argument in words, from `left` if it was changed; "" if none."""
    lead = _lead_of(desk, action) if action else ""
    args = _args(action) if left is None else left
    if not lead or lead not in args:
        return ""
    return labelled_argument(desk, str(action.get("name", "")), lead, args[lead])


def labelled_argument(desk: str, tool: str, name: str, value: Json) -> str:
    """Return an argument in words: an amount by itself, anything else after its label."""
    text = argument_in_words(desk, tool, name, value)
    is_money = name.endswith("_minor") or money_of(value)
    return text if is_money else f"{label_of(name).lower()} {text}"


def is_write(desk: str, action: Json) -> bool:
    """Tell whether an action is a call that changes something and is not a letter."""
    tool = tools_at(desk).get(str((action or {}).get("name", "")))
    return bool(tool and tool.writes and not tool.letter)


def amount_of(desk: str, action: Json) -> tuple[str, int] | None:
    """Return the currency and minor units that a call would pay, or None."""
    if not is_write(desk, action):
        return None
    args = _args(action)
    if isinstance(args.get("amount_minor"), int):
        return currency_of_argument(desk, action["name"], "amount_minor"), args["amount_minor"]
    held = next((money for value in args.values() if (money := money_of(value))), None)
    return (held.currency, held.minor) if held else None


def stages(
    desk: str,
    reviews: Sequence[Step],
    escalation: Escalation | None,
    effect: Effect | None,
    *,
    is_over: bool,
) -> list[ActionStage]:
    """Return a call's main argument at its four stages; [] if it has none.

    Without an amount it is the argument that a person changed.

    `is_over`: the run has ended and executes nothing more.
    """
    if not reviews:
        return []
    action, first = reviews[0].asked["action"], reply_of(reviews[0])
    lead = _lead_of(desk, action)
    if not lead:
        return []
    name, changed = str(action["name"]), patch_of(escalation)
    if changed and lead not in changed and not amount_of(desk, action):
        lead = next(iter(changed))

    def text(args: Mapping[str, Json]) -> str:
        return argument_in_words(desk, name, lead, args[lead]) if lead in args else "none"

    rules, deciding = _changing_rules(reviews[0]), rule_title(first["deciding"]["rule"])
    by = f"policy changed it: {rules}" if rules else f"policy: {deciding}"
    verdict, left = first["decision"], _args(first["action"]) or _args(action)
    return [
        ActionStage("Proposed", "", "bot", text(_args(action)), "the agent", reviews[0].begun_at),
        ActionStage("Reviewed", verdict, verdict, text(left), by, reviews[0].ended_at),
        _approved_stage(verdict, text({**left, **changed}), escalation),
        _executed_stage(escalation, effect, text(effect.args) if effect else "", is_over=is_over),
    ]


def _approved_stage(verdict: str, text: str, escalation: Escalation | None) -> ActionStage:
    if escalation is None:
        if verdict in ("approve", "revise"):
            return ActionStage("Allowed", "approve", "approve", text, "the policy", None)
        by = "blocked by the policy"
        return ActionStage("Allowed", "block", "block", "nothing", by, None, is_ahead=True)
    if escalation.state == EscalationState.OPEN:
        # While a kill switch holds it, its deadline moves.
        held = escalation.frozen_at is not None
        by, due = ("deadline paused", None) if held else ("due", escalation.expires_at)
        if first := escalation.approval:
            by = f"{first.by.get_username()} approved as the first of two; {by}"
        return ActionStage("Decision", "human", "human", "none yet", by, due, is_now=True)
    who = escalation.decided_by.get_username() if escalation.decided_by else "nobody"
    if escalation.state not in GRANTED:
        role, word = ESCALATION_ROLES[escalation.state]
        return ActionStage(word, role, role, "nothing", who, escalation.decided_at)
    return ActionStage("Approved", "human", "human", text, who, escalation.decided_at)


def closed_by(escalation: Escalation) -> str:
    """Return what closed a request before a decision."""
    step = escalation.step
    if step.ended_at is None:  # the end of a run answers nothing
        return "the run ended"
    is_end = isinstance(step.reply, dict) and step.reply.get("decision") == UNTAKEN
    return "its agent's session ended" if is_end else "the agent took it back"


def patch_of(escalation: Escalation | None) -> Mapping[str, Json]:
    """Return a person's changes; old decisions store only an amount."""
    if escalation is None:
        return {}
    granted, args = escalation.granted_minor, escalation.action.get("args") or {}
    patch: Mapping[str, Json] | None = escalation.patch
    is_of_before = granted is not None and "amount_minor" in args
    return patch or ({"amount_minor": granted} if is_of_before else {})


def _executed_stage(
    escalation: Escalation | None, effect: Effect | None, text: str, *, is_over: bool
) -> ActionStage:
    if effect is None:
        when = _missing(escalation, is_over=is_over)
        return ActionStage("Executed", "", "dot", when, "nothing was done", None, is_ahead=True)
    if effect.state == EffectState.DONE:
        by = executor_of(effect).removeprefix("executed ") or "once"
        return ActionStage("Executed", "approve", "approve", text, by, effect.settled_at)
    word = {EffectState.REFUSED: "refused", EffectState.UNKNOWN: "outcome unknown"}
    begun = "with the agent" if effect.report_due_at else "under way"
    stage = word.get(EffectState(effect.state), begun)
    return ActionStage(
        "Executed", "waiting", "waiting", stage, tool_title(effect.tool), effect.settled_at
    )


def _missing(escalation: Escalation | None, *, is_over: bool) -> str:
    """Return whether what has not been executed still may be."""
    if escalation is not None and escalation.state != EscalationState.OPEN:
        is_over |= escalation.state not in GRANTED or escalation.not_carried_out != ""
    return "never" if is_over else "not yet"


def executor_of(effect: Effect) -> str:
    """Return who executed a call and what vouches for it; "" for the console."""
    tool = tools_at(effect.run.desk).get(effect.tool)
    server = tool.server if tool else ""
    return executor_in_words(server) if effect.report_due_at else ""


def changes(
    desk: str,
    reviews: Sequence[Step],
    escalation: Escalation | None,
    uses: Sequence[Step],
    effect: Effect | None = None,
    *,
    is_over: bool = False,
) -> list[tuple[str, list[dict[str, object]]]]:
    """Return every argument at its stages, if any changed or a person decided; else [].

    `is_over`: the run has ended, so what has not happened never will.
    """
    if not reviews or reviews[0].asked["action"].get("kind") == "final":
        return []
    rows = [_args(reviews[0].asked["action"]), _args(reply_of(reviews[0])["action"])]
    if len(reviews) > 1:
        rows.append(_args(reviews[-1].asked["action"]))
    elif escalation and escalation.state != EscalationState.OPEN:
        is_yes = escalation.state in GRANTED
        rows.append({**rows[1], **patch_of(escalation)} if is_yes else {})
    else:
        rows.append(rows[1] if reply_of(reviews[0])["allows"] else {})
    rows.append(uses[-1].asked["args"] if uses and _is_executed(uses[-1], effect) else {})
    if rows[0] == rows[1] and escalation is None:
        return []
    who = _who(reviews[0], escalation)
    names = list(dict.fromkeys(name for row in rows for name in row))
    missing = _missing(escalation, is_over=is_over)
    tool = str(reviews[0].asked["action"].get("name", ""))
    called = names_in(reply_of(reviews[0]))
    return [
        (label_of(name), _cells(desk, tool, name, rows, who, missing, called)) for name in names
    ]


def _is_executed(use: Step, effect: Effect | None) -> bool:
    """Tell whether a call was executed or may have been: a kill switch can still stop its use."""
    return effect.state != EffectState.REFUSED if effect else not use.failed


def _who(review: Step, escalation: Escalation | None) -> list[tuple[str, str]]:
    """Return the role and name of those who could change something, stage by stage."""
    rules = _changing_rules(review)
    person = escalation.decided_by if escalation else None
    decided = ("human", person.get_username()) if person else ("approve", "the policy")
    return [("", ""), ("revise", rules or "the policy"), decided, ("block", "the gateway")]


def _changing_rules(review: Step) -> str:
    return ", ".join(rule_title(r["rule"]) for r in reply_of(review)["revisions"])


def _cells(
    desk: str,
    tool: str,
    name: str,
    rows: Sequence[Mapping[str, Json]],
    who: Sequence[tuple[str, str]],
    missing: str,
    called: Called,
) -> list[dict[str, object]]:
    """Return an argument at the four stages, each with who changed it there."""
    cells: list[dict[str, object]] = []
    for number, row in enumerate(rows):
        if name not in row:
            cells.append({"text": missing if number > 1 else "none"})
            continue
        before = [earlier[name] for earlier in rows[:number] if name in earlier]
        text = argument_in_words(desk, tool, name, row[name], called)
        is_same = bool(before) and before[-1] == row[name]
        role, by = who[number]
        cells.append({"is_same": True} if is_same else {"text": text, "role": role, "by": by})
    return cells


def reply_of(step: Step) -> Json:
    return step.reply  # of a step that has ended, so it is there


def _args(action: Json) -> Mapping[str, Json]:
    return (action or {}).get("args") or {}
