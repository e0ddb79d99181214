"""Routing: a router chooses a specialist, who answers or sends the case back."""

from dataclasses import dataclass, field
from functools import partial

from agents.core.decisions import HAND_OVER
from agents.core.json_forms import Route, args_hash, read_route, route_schema
from agents.core.limits import Limits
from agents.core.requests import Ask, Escalate, Failed, Flow, Json, Review, Stop, Use
from agents.patterns import Brief, Notes, pattern, steps

_RECENT = 3  # attempts that the router is shown
_STATUSES = ("needs_reroute", "done")  # a specialist's possible answers
_FINALIZE = "finalize"
NO_SPECIALIST = "max_route_attempts"
_REASONS = {  # the gateway's reason for a refused call: its name for a delegation
    "max_tool_calls": "max_delegations",
    "loop_detected": "loop_detected",
    **{f"tool_{fault}": f"route_{fault}" for fault in ("denied", "missing", "bad_args", "error")},
}


@pattern
def routing(brief: Brief, notes: Notes) -> Flow:
    """Route -> Delegate -> (reroute) -> Finalize; a case that nobody takes goes to people."""
    limits = brief.limits
    refused: list[str] = []
    for attempt in range(1, limits.max_steps + 1):
        one = partial(_attempt_route, brief, notes, attempt, refused)
        route, seen = yield from steps.say_until_usable(one, notes, limits)
        if seen["status"] == "done":
            closing = partial(_closing_answer, brief, notes, route)
            return (yield from steps.say_until_usable(closing, notes, limits))
        refused = forbidden([*refused, route["target"]], limits)

    person = (yield from hand_over(brief, notes)) if limits.hand_over else {}
    raise Stop(NO_SPECIALIST, phase="route", **person)


def _attempt_route(
    brief: Brief, notes: Notes, attempt: int, refused: list[str]
) -> steps.Steps[tuple[Route, Json]]:
    """Choose a specialist and give them the case. Return the route and their answer."""
    allowed = brief.limits.proposable
    guide = brief.guidance(schema=route_schema(allowed), tools=allowed)
    inputs = _situation(brief, notes, attempt, refused)
    with steps.expect_readable(attempt):
        request = Ask(f"{attempt}/route", "router", inputs, guide=guide)
        text = yield from steps.answer_to(request, phase="route")
        route = read_route(text, allowed=allowed, forbidden=refused)
    seen = yield from delegate(Delegation(attempt, route, notes), brief.limits)
    return route, seen


def forbidden(refused: list[str], limits: Limits) -> list[str]:
    """Return the targets that the next attempt may not choose, oldest first."""
    return refused[-1:] if limits.reference.forget_refusals else refused


def _situation(brief: Brief, notes: Notes, attempt: int, refused: list[str]) -> Json:
    """Return the router's inputs: the goal, a brief state, and excluded specialists."""
    history: list[Json] = notes.history
    last = history[-1] if history else None
    return brief.as_models_see(
        {
            "goal": brief.goal,
            "budgets": {
                "max_route_attempts": brief.limits.max_steps,
                "remaining_attempts": brief.limits.max_steps - attempt + 1,
            },
            "forbidden_targets": refused,
            "state_summary": {
                "attempts_completed": len(history),
                "routes_used_unique": list(dict.fromkeys(p["route"]["target"] for p in history)),
                "last_route_target": last["route"]["target"] if last else None,
                "last_observation_status": last["observation"].get("status") if last else None,
                "last_observation": last["observation"] if last else None,
            },
            "recent_history": history[-_RECENT:],
            **steps.blocks_of(notes),
        }
    )


@dataclass
class Delegation:
    """One attempt: the chosen route, and its trace."""

    attempt: int
    route: Route
    notes: Notes
    action: Json = field(init=False)  # the delegation as a tool call

    def __post_init__(self) -> None:
        self.action = {"kind": "tool", "name": self.route["target"], "args": self.route["args"]}

    def line(self, *, ok: bool, **more: Json) -> None:
        """Add this attempt to the trace."""
        entry = {
            "attempt": self.attempt,
            "target": self.route["target"],
            "args_hash": args_hash(self.route["args"]),
            "ok": ok,
        }
        self.notes.trace.append({**entry, **more})

    def refuse(self, reason: str) -> Stop:
        """Close this attempt as refused, and return the Stop for it."""
        self.line(ok=False, stop_reason=reason)
        return steps.stop(reason, phase="delegate", route=self.route)

    def saw(self, observation: Json, *, ok: bool) -> None:
        """Close this attempt with the specialist's answer."""
        domain = {"domain": observation["domain"]} if "domain" in observation else {}
        self.line(ok=ok, observation_status=observation.get("status"), **domain)
        self.notes.history.append(
            {"attempt": self.attempt, "route": self.route, "observation": observation}
        )

    def out_of_contract(self, observation: Json) -> Stop:
        """Return the Stop for a specialist's invalid answer."""
        is_object = isinstance(observation, dict)
        return Stop(
            "route_bad_observation",
            phase="delegate",
            route=self.route,
            expected_statuses=list(_STATUSES),
            received_status=observation.get("status") if is_object else None,
            bad_observation=observation,
        )


def delegate(delegation: Delegation, limits: Limits) -> steps.Steps[Json]:
    """Give one ticket to one specialist, through policy and gateway. Return their answer."""
    label, action = str(delegation.attempt), delegation.action
    review = yield Review(f"{label}/review", action)
    if not review["allows"] or review["action"] != action:
        end = delegation.refuse(f"supervisor_block:{review['deciding']['reason']}")
        raise steps.block_for(end, delegation.attempt, action, review)
    try:
        seen = yield Use(f"{label}/delegate", action["name"], action["args"], review["key"])
    except Failed as error:
        if error.reason.startswith("tool_bad_result:"):
            delegation.line(ok=False, stop_reason="route_bad_observation")
            raise delegation.out_of_contract(None) from None
        raise delegation.refuse(reason_of(error.reason)) from None
    is_reply = _in_contract(seen)
    delegation.saw(seen, ok=is_reply or not limits.reference.errors_fail)
    if not is_reply:
        raise delegation.out_of_contract(seen)
    return seen


def reason_of(refusal: str) -> str:
    """Return the gateway's refusal in the words of routing; a budget keeps its name."""
    word, _, target = refusal.partition(":")
    if word not in _REASONS:
        return refusal
    return f"{_REASONS[word]}:{target}" if word.startswith("tool_") else _REASONS[word]


def _in_contract(seen: Json) -> bool:
    """Tell whether a specialist's reply is valid; "done" has a result and no error (ROU-Q4)."""
    if seen.get("status") == "done":
        return bool(seen.get("result")) and "error" not in seen
    return seen.get("status") in _STATUSES


def _closing_answer(brief: Brief, notes: Notes, route: Route) -> steps.Steps[Json]:
    """Write the answer from the specialist's evidence, and review it against that."""
    told_of = {"goal": brief.goal, "selected_route": route["target"], "history": notes.history}
    inputs = brief.as_models_see({**told_of, **steps.blocks_of(notes, step=_FINALIZE)})
    request = Ask(_FINALIZE, "responder", inputs, as_json=False, guide=brief.guidance())
    with steps.expect_readable(_FINALIZE):
        text = yield from steps.nonblank_text(request, phase=_FINALIZE, route=route)
    final = {"kind": "final", "answer": text}
    review = yield Review("finalize/review", final)
    if not review["allows"]:
        end = Stop(steps.block_reason(review), phase=_FINALIZE, route=route, action=final)
        raise steps.block_for(end, _FINALIZE, final, review)
    return {"selected_route": route["target"], **steps.final_answer(review["action"])}


def hand_over(brief: Brief, notes: Notes) -> steps.Steps[Json]:
    """Wait until a person takes the case or gives a reason why nobody will. Return their answer."""
    tried = [
        {"target": past["route"]["target"], "reason": past["observation"].get("reason")}
        for past in notes.history
    ]
    action = {"kind": "hand_over", "goal": brief.goal, "tried": tried}
    sentence = "No specialist takes this case. Take it yourself, or close it and say why."
    review = steps.without_rule("routing.hand_over", "no_specialist", sentence, risk=20)
    decision = yield Escalate("hand_over", HAND_OVER.stored, action, review)
    taken = decision["decision"] == "approved"
    return {"handed_over": {"taken": taken, "by": decision["by"], "comment": decision["comment"]}}
