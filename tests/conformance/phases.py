"""Play a recorded case of the five phases, and put what came of it beside what was recorded.

The reference's channel to a human is our inbox: `none` is a policy without people, a blank
answer or a closed channel a denial, words a correction, a cancelled context a cancelled run,
and one past its deadline an escalation that expired. An error of a model is ours by its code.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from django.test import override_settings
from django.utils import timezone

from agents import results
from agents.core.decisions import Decision
from agents.core.requests import EscalationState, RunState
from agents.engine.turns.answering import expire
from agents.models import Escalation, Run
from agents.publishing.versions import policy_version
from agents.replay.cases import read_config
from agents.requests import deciding
from agents.runs import launching
from agents.shell import refusal
from tests.conformance.replay_server import ReplayServer, Session
from tests.engine.scene import Scene, go

Case: TypeAlias = dict[str, Any]
Person: TypeAlias = Callable[[Scene, Run, str], None]  # answers once; "" is a blank answer

MODES = {"": "unsupervised", "llm": "by_model", "human": "by_person"}
PHASES = {"committer": "COMMIT", "executor": "EXECUTE", "assessor": "POST", "judge": "SUPERVISE"}
FAILS = {"fault": "http", "status": 400}  # not tried again
_PARSER = re.compile(r"Error: .*?\n\nWhat", re.S)  # how a JSON parser words its complaint


class Models(Session):
    """Two scripts for two models, distinguished by the first line of the prompt."""

    def __init__(self, case: Case) -> None:
        super().__init__(case["id"], _script(case["agent_llm"]))
        self.judge = Session("judge", _script(case.get("supervisor_llm") or []))
        self.has_judge = "supervisor_llm" in case

    def take(self, body_bytes: bytes, retry_count: int) -> Any:
        if self.has_judge and role_of(json.loads(body_bytes)) == "judge":
            return self.judge.take(body_bytes, retry_count)
        return super().take(body_bytes, retry_count)


def role_of(body: dict[str, Any]) -> str:
    first = body["messages"][0]["content"].partition("\n")[0]
    return str(first.removeprefix("Role: "))


def _script(entries: list[Any]) -> list[Any]:
    return [FAILS if isinstance(entry, dict) and "error" in entry else entry for entry in entries]


@dataclass(frozen=True)
class Played:
    """What came of a case: the result, or the sentence with which it was refused."""

    result: dict[str, Any]
    refused: str
    session: Models
    run: Run | None = None

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return every logical call: its phase, and what the model was told."""
        return [
            {"phase": PHASES[role_of(entry["body"])]}
            | {"told": json.loads(entry["body"]["messages"][-1]["content"])}
            for entry in self.session.log
            if not entry["retry"]
        ]

    @property
    def phases(self) -> list[str]:
        return [call["phase"] for call in self.calls]

    @property
    def rounds(self) -> list[dict[str, Any]]:
        return list(self.result.get("history", []))


def play(
    case: Case,
    server: ReplayServer,
    scene: Scene,
    *,
    person: Person | None = None,
    strict: bool = False,
) -> Played:
    """Launch a case and drive it to its end; `person` answers where the case has nobody else."""
    models = server.sessions[case["id"]] = Models(case)
    reference, _ = read_config(_config(case), pattern="workflow", desk="reference")
    policy = policy_version(scene.workspace, reference, at=timezone.now(), is_replay=True)
    with override_settings(OPENAI_BASE_URL=server.base_url(case["id"]), OPENAI_API_KEY="any"):
        try:
            run = launching.launch(
                desk="refunds" if strict else "reference",
                workspace=scene.workspace,
                pattern="workflow",
                goal=case["title"],
                subject="42",
                by=scene.omar,
                at=timezone.now(),
                options=launching.LaunchOptions(
                    policy=scene.workspace.policy if strict else policy,
                    workflow=document(case),
                    inputs=case.get("inputs", {}),
                ),
            )
        except refusal.Refused as no:
            return Played({}, str(no), models)
        run = _driven(case, go(run), scene, person or answer_request)
        return Played(json.loads(json.dumps(results.result(run))), "", models, run)


def _driven(case: Case, run: Run, scene: Scene, person: Person) -> Run:
    """Let the person answer for as long as there is an answer in the case."""
    human = case["human"]
    answers = list(human.get("replies", []))
    while run.state == RunState.WAITING and (answers or not human.get("replies")):
        if not (answers or {"close", "cancel", "silent"} & set(human)):
            break
        person(scene, run, answers.pop(0) if answers else "")
        run = go(run)
    return run


def answer_request(scene: Scene, run: Run, words: str) -> None:
    """Answer as Rita: words correct, nothing denies."""
    decide(scene, run, approve=bool(words.strip()), correction=words.strip())


def decide(scene: Scene, run: Run, *, approve: bool, correction: str = "") -> Escalation:
    held = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    return deciding.decide(
        escalation_id=held.pk,
        by=scene.rita,
        at=timezone.now(),
        wanted=Decision(
            approve=approve,
            correction=correction if approve else "",
            comment="" if approve else "not like this",
        ),
    )


def cancel_run(scene: Scene, run: Run, words: str) -> None:
    launching.cancel(run_id=run.pk, by=scene.omar, at=timezone.now(), reason="")


def let_expire(scene: Scene, run: Run, words: str) -> None:
    held = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    assert expire(held.pk, at=timezone.now())


def document(case: Case) -> dict[str, Any]:
    """Return the case's steps as a workflow."""
    sequence = {"name": "s", "mode": MODES[case.get("sequence_mode", "")]}
    return {
        "name": "wf",
        "mode": MODES[case.get("mode", "")],
        "parameters": [{"name": name} for name in case.get("params", [])],
        "sequences": [{**sequence, "steps": [_step(step) for step in case["steps"]]}],
    }


def _step(step: dict[str, Any]) -> dict[str, Any]:
    agents = [{"name": name} for name in step.get("agents", [])]
    return {**step, "mode": MODES[step.get("mode", "")], "agents": agents}


def _config(case: Case) -> dict[str, Any]:
    budget = {}
    if "max_reorient_attempts" in case:
        budget["max_reorient_attempts"] = case["max_reorient_attempts"]
    has_people = case["human"]["channel"] != "none"
    return {"budget": budget, "inbox": has_people, "judge": not case.get("no_supervisor", False)}


def in_our_words(case: Case, value: Any) -> Any:
    """Return a recorded value in our words: errors of models by code, no parser's wording."""
    text = json.dumps(value)
    for entry in [*case["agent_llm"], *(case.get("supervisor_llm") or [])]:
        if isinstance(entry, dict) and "error" in entry:
            text = text.replace(entry["error"], "llm_error")
    return _plain(json.loads(text))


def plain(value: Any) -> Any:
    """Return one of our values in the form of `in_our_words`."""
    return _plain(json.loads(json.dumps(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _PARSER.sub("Error: …\n\nWhat", value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
