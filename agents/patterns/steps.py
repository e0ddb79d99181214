"""Functions for the steps of every pattern: models' answers, blocks, and dialogues of calls."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from agents.core.json_forms import MAX_TEXT
from agents.core.limits import BUDGETS, Limits
from agents.core.requests import AFTER_BLOCK, Ask, Failed, Json, Request, Stop, asks_only
from agents.core.tables import read_table
from agents.patterns import Brief, Notes

T = TypeVar("T")
Steps = Generator[Request, Any, T]

# The stop reason of a false answer, from runs of older releases.
_SAID_PLAINLY = frozenset(
    {"answer_contradicts_ledger", "answer_contradicts_evidence", "brief_contradicts_facts"}
)


class NoReply(Stop):
    """A model gave no answer, and asking again would not help."""


def answer_to(request: Ask, *, phase: str, **details: Json) -> Steps[str]:
    """Return a model's text, or stop the run with the reason why there is none: NoReply.

    `details` go into the record of that stop, with the phase.
    """
    reply = yield from _reply_to(request, phase=phase, **details)
    return str(reply["text"])


def _reply_to(request: Ask, *, phase: str, **details: Json) -> Steps[Json]:
    """Return the whole reply. Raises NoReply."""
    try:
        return (yield request)
    except Failed as error:
        about = {} if error.reason in BUDGETS else {"phase": phase, **details}
        raise NoReply(error.reason, **about) from None


def nonblank_text(request: Ask, *, phase: str, **details: Json) -> Steps[str]:
    """Return a model's text without surrounding blanks, or stop the run if it is empty."""
    text = (yield from answer_to(request, phase=phase, **details)).strip()
    if not text:
        raise Stop("llm_empty", phase=phase, **details)
    return text


def stop(reason: str, **details: Json) -> Stop:
    """Return the Stop for a failed step; a budget that ran out belongs to no phase."""
    return Stop(reason, **({} if reason in BUDGETS else details))


def block_reason(review: Json) -> str:
    """Return the stop reason of a review that does not allow an action."""
    reason = review["deciding"]["reason"]
    return str(reason) if reason in _SAID_PLAINLY else f"supervisor_block:{reason}"


def without_rule(rule: str, reason: str, sentence: str, *, risk: int) -> Json:
    """Return a stand-in for a review, to ask a person whom no rule of the policy asks."""
    about = {"rule": rule, "reason": reason, "verdict": "escalate", "sentence": sentence}
    deciding = {**about, "risk": risk, "observed": None, "limit": None, "flip": ""}
    return {"escalating": [], "deciding": deciding, "facts": {}, "rulings": []}


def reports_error(seen: Json) -> bool:
    """Tell whether a tool that was called answered with an error."""
    if not isinstance(seen, dict):
        return False
    return bool(seen.get("error")) if "status" not in seen else seen["status"] == "error"


def final_answer(action: Json) -> Json:
    """Return a run's final result: answer, meaning, note, and approver."""
    kept = ("answer", "says", "note", "approved_by")
    return {key: action[key] for key in kept if key in action}


# A block is feedback: the agent gets the reason and may propose something else, as the policy
# allows. The same holds for unreadable replies, so that one broken reply does not end a run that
# has paid.


@dataclass(frozen=True)
class _Block:
    rule: str
    sentence: str
    flip: str


@dataclass(frozen=True)
class _Told:
    """The tables of told.toml."""

    blocks: dict[str, _Block]
    next: dict[str, str]
    reasons: dict[str, str]


_TOLD = read_table(_Told, __file__, "told.toml")
_RULES = {name: block.rule for name, block in _TOLD.blocks.items()}
UNREADABLE, BY_PERSON, REPEATED = _RULES["unreadable"], _RULES["by_person"], _RULES["repeated"]
TOO_MANY, NOTHING_DONE = _RULES["all_calls_made"], _RULES["nothing_done"]
NOT_NAMED = _RULES["not_named"]
_MOST_ALIKE = 2  # times that an agent gets the same block for the same proposal
# For any role, also one that writes plain text.
_IN_FULL = {"llm_empty", "llm_stray_call", "llm_truncated"}


class Blocked(Stop):
    """An agent's proposal is blocked. It may propose something else, as often as policy allows.

    Without another proposal, the run ends with the first block of the row and the list of all.
    """

    def __init__(self, end: Stop, block: Json, *, is_final: bool = False) -> None:
        super().__init__(end.reason, **end.details)
        self.block = block  # as the agent gets it
        self.is_final = is_final  # a person had approved it: the run ends

    def put_to_agent(
        self, notes: Notes, limits: Limits, *, row: "Blocked | None" = None
    ) -> "Blocked":
        """Return the first block of the row if the agent may propose again; otherwise raise it."""
        tell(notes, self.block, call=self.details.get("raw_action"))
        # Send-backs are counted where people decide.
        counted = [block for block in notes.blocks if not is_by_person(block)]
        may_go_on = is_by_person(self.block) or len(counted) <= limits.max_blocks
        if may_go_on and not self.is_final:
            return row or self
        raise (row or self).with_all(notes.blocks)

    def counted(self, notes: Notes) -> "Blocked":
        """Note how often the agent has proposed this; the third time ends the run. Return self."""
        before = sum(_is_like(block, self.block) for block in notes.blocks)
        if before:
            says = "Proposed again" if before == 1 else "Proposed for the third time"
            self.block = {**self.block, "sentence": f"{says}: {self.block['sentence']}"}
        self.is_final = self.is_final or before >= _MOST_ALIKE
        return self

    def with_all(self, blocks: list[Json]) -> "Blocked":
        """Add the list of all blocks, if there were others. Return self."""
        if len(blocks) > 1:
            self.details = {**self.details, "blocks": list(blocks)}
        return self

    def with_answer(self, answer: Json) -> "Blocked":
        """Add the agent's later answer, which is not a result of the run. Return self."""
        self.details = {**self.details, AFTER_BLOCK: answer}
        return self

    def end_without(self, end: Stop) -> Stop:
        """Return the Stop of a run without another proposal: the block, or a budget."""
        if end.reason in BUDGETS:
            return end
        self.details = {**self.details, "then": end.reason}
        return self


def told_of(block: str, **words: object) -> Json:
    """Return what an agent is told by a block of told.toml: rule, sentence and way on."""
    return {key: text.format(**words) for key, text in vars(_TOLD.blocks[block]).items()}


def block_of(end: Stop, step: Json, action: Json, name: str, **words: object) -> Blocked:
    """Return a block of told.toml for an action; `end` may end the run."""
    return Blocked(end, {"step": step, "action": action, **told_of(name, **words)})


def _is_like(block: Json, other: Json) -> bool:
    """Tell whether two blocks have the same proposal and reason."""
    same = all(block.get(name) == other.get(name) for name in ("rule", "action"))
    return same and bool(block["sentence"].endswith(other["sentence"]))


def tell(notes: Notes, block: Json, *, call: Json = None) -> None:
    """Note a block for the agent's newest proposal; `call` is a reply that is not a proposal."""
    notes.blocks.append(block)
    is_call = isinstance(call, dict) and isinstance(call.get("args"), dict)
    is_call = is_call and call.get("kind") == "tool" and isinstance(call.get("name"), str)
    then = _TOLD.next
    way = then["unreadable"] if block["rule"] == UNREADABLE else block["flip"] or then["otherwise"]
    came = {"status": "blocked", "why": block["sentence"], "next": way}
    notes.turns.append({"call": block.get("action") or (call if is_call else None), "came": came})
    notes.proposed.clear()  # they were meant to follow the blocked one


def block_for(
    end: Stop, step: Json, action: Json, review: Json, *, is_final: bool = False
) -> Blocked:
    """Return the block of an action that a review does not allow; `end` may end the run."""
    deciding = review["deciding"]
    block = {name: deciding[name] for name in ("rule", "sentence", "flip")}
    return Blocked(end, {"step": step, "action": action, **block}, is_final=is_final)


def earlier_block(notes: Notes, action: Json) -> Json:
    """Return the block by which a person sent back this action, or None."""
    theirs = filter(is_by_person, notes.blocks)
    return next((block for block in theirs if block["action"] == action), None)


def is_by_person(block: Json) -> bool:
    """Tell whether a person sent a proposal back, and no rule blocked it."""
    return bool(block["rule"] == BY_PERSON)


@contextmanager
def expect_readable(step: Json) -> Iterator[None]:
    """Turn the Stop for an unreadable reply into a block of a step."""
    try:
        yield
    except Blocked:
        raise
    except Stop as end:
        if end.reason in _TOLD.reasons or end.reason.startswith("invalid_"):
            raise _block_for_unreadable(end, step) from None
        raise


def _block_for_unreadable(end: Stop, step: Json) -> Blocked:
    kind, _, about = end.reason.partition(":")
    code, _, where = (about or kind).partition(":")
    why = _TOLD.reasons.get(code, code.replace("_", " ")) + (f" ({where})" if where else "")
    block = "cut_off" if code in _IN_FULL else "unreadable"
    return Blocked(end, {"step": step, **told_of(block, why=why, most=MAX_TEXT)})


def say_until_usable(say: Callable[[], Steps[T]], notes: Notes, limits: Limits) -> Steps[T]:
    """Repeat a step until its reply is usable; each time the agent gets the fault."""
    row: Blocked | None = None
    while True:
        try:
            return (yield from say())
        except Blocked as block:
            row = block.put_to_agent(notes, limits, row=row)
        except NoReply as end:
            raise (row.end_without(end) if row else end) from None


def blocks_of(notes: Notes, *, step: Json = None) -> Json:
    """Return the part of a question that lists blocks, of all steps or one; {} without any."""
    blocks = [block for block in notes.blocks if step in (None, block["step"])]
    return {"blocked": blocks} if blocks else {}


# An agent's dialogue of calls: its proposals with their outcomes. A server that knows `tools` gets
# it as messages. It follows from earlier steps, so no step stores it. A reply may propose several
# calls, which are reviewed one after another.

FROM_VERSION = 4  # of the patterns' requests; under `reference` an agent writes an object
_MOST_TURNS = 20  # shown at least, if there are as many; at most twice as many
_REACHED = (
    "This was carried out. Go on only if more was asked for; else end now, and say what was done."
)
_BLOCKED_OFTEN = 2  # blocked writes after which an agent may answer in plain text


def dialogue_of(brief: Brief, notes: Notes) -> Json:
    """Return the turns so far, oldest first, and whether a call is required; None: no dialogue.

    For a goal that only asks, `only` lists the tools that read.
    """
    if brief.question_version < FROM_VERSION or brief.limits.profile == "reference":
        return None
    # In whole portions, so that a server can reuse the earlier turns.
    gone = max(0, len(notes.turns) - _MOST_TURNS) // _MOST_TURNS * _MOST_TURNS
    turns = brief.as_models_see([_with_next_step(brief, turn) for turn in notes.turns[gone:]])
    dialogue: dict[str, Json] = {"turns": turns, "required": not _has_acted(brief, notes)}
    if asks_only(brief.goal):  # an agent that must call a tool tends to choose one that writes
        dialogue["only"] = [name for name in brief.limits.proposable if name in brief.reads]
    return dialogue


def _with_next_step(brief: Brief, turn: Json) -> Json:
    """Return a turn; a call that wrote adds that the goal may be reached."""
    call = turn["call"] or {}
    is_write = call.get("kind") == "tool" and call["name"] not in brief.reads
    if not is_write or turn.get("status") != "ok":
        return turn
    return {**turn, "came": {**turn["came"], "next": _REACHED}}


def _has_acted(brief: Brief, notes: Notes) -> bool:
    """Tell whether a write was executed, held by a person or blocked twice."""
    done = (
        past["executed_action"].get("name") not in brief.reads
        and not reports_error(past["observation"])
        for past in notes.history
    )
    calls = [block["action"]["name"] for block in notes.blocks if is_call(block)]
    blocked = [name for name in calls if name not in brief.reads]
    return any(done) or len(blocked) >= _BLOCKED_OFTEN or any(map(is_by_person, notes.blocks))


def is_call(block: Json) -> bool:
    """Tell whether a block is about a call, not an answer or an unreadable reply."""
    return bool(block.get("action", {}).get("kind") == "tool")


def next_proposal(request: Ask, notes: Notes, *, phase: str) -> Steps[str]:
    """Return the next proposal of the agent's last reply or, if none is left, of a new one."""
    if notes.proposed:
        return notes.proposed.pop(0)
    reply = yield from _reply_to(request, phase=phase)
    notes.proposed = list(reply.get("more", ()))
    notes.was_required = "form" in reply and request.dialogue["required"]
    return str(reply["text"])
