"""How a run ended: the record, then what its agent wrote, and the steps that it read for it.

The record is the console's, and no sentence of it stands inside the agent's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from agents.core.calls import Touch
from agents.models import Run
from agents.results import agent_words, answer_after_block, words_after_block
from agents.sdk.desk import DESKS
from agents.shell.event_words import with_islands, with_name
from agents.shell.formats import as_html
from agents.tools import TOOLS, call_in_words
from agents.web.runs.turns import RunTurn

LONGEST = 6000  # characters shown of the agent's words


@dataclass(frozen=True)
class StepRead:
    """A step that only read, and whether an outsider wrote in what it read."""

    number: int
    title: str
    about: str  # its arguments besides the subject, in words
    is_outside: bool


@dataclass(frozen=True)
class RunEnding:
    """The two parts of a run's end, each "" if there is none, and its sources."""

    record: str
    is_after_block: bool  # the agent answered where its call was blocked: that is no result
    note: str  # of a desk that shows no words of agents beside the record
    approved_by: str
    words: SafeString | str
    cut_at: int | None  # the turn that has the whole text; None: all of it is shown
    read: Sequence[StepRead]


def ending_of(run: Run, turns: Sequence[RunTurn]) -> RunEnding:
    """Return how a run ended, from its row and its turns."""
    after_block = answer_after_block(run)
    answer = after_block or (run.outcome if isinstance(run.outcome, dict) else {})
    words = agent_words(run) or words_after_block(run)
    is_cut = len(words) > LONGEST and turns
    return RunEnding(
        record=with_islands(with_name(str(answer.get("answer", "")), run)),
        is_after_block=bool(after_block),
        note="" if words else str(answer.get("note", "")),
        approved_by=str(answer.get("approved_by", "")),
        words=as_html(f"{words[:LONGEST]} …" if len(words) > LONGEST else words),
        cut_at=turns[-1].number if is_cut else None,
        read=list(_read(run, turns)) if words else (),
    )


def _read(run: Run, turns: Sequence[RunTurn]) -> Iterator[StepRead]:
    desk = DESKS[run.desk]
    for turn in turns:
        for step in turn.steps:
            if step.kind != "use" or step.failed or not isinstance(step.reply, dict):
                continue
            name = str(step.asked["tool"])
            known, declared = TOOLS.get(name), desk.tools.get(name)
            if known is None or known.touch is not Touch.READ:
                continue
            args = call_in_words({"name": name, "args": step.asked["args"]})
            about = [args[key] for key in args if not declared or key != declared.subject]
            yield StepRead(
                turn.number, turn.title, ", ".join(about), bool(declared and declared.outside)
            )
