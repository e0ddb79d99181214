"""What a safe system does where the reference's five phases have a hole: one check a quirk."""

from collections.abc import Callable
from typing import TypeAlias

from agents.core.requests import EscalationState, RunState
from agents.models import Event, Run
from tests.conformance import phases
from tests.conformance.phases import Case, Played, play
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import Scene, fresh

Check: TypeAlias = Callable[[Case, ReplayServer, Scene], None]


def approving(scene: Scene, run: Run, words: str) -> None:
    phases.decide(scene, run, approve=True)


def denying(scene: Scene, run: Run, words: str) -> None:
    phases.decide(scene, run, approve=False)


def not_ok(played: Played) -> None:
    """Nothing came out of it: it stopped, or it waits for a person."""
    assert played.result["status"] in ("stopped", "waiting")
    assert "outputs" not in played.result


def nobody_approves_themselves(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q1: the question goes to the inbox, and only a member of the workspace answers it."""
    played = play({**case, "human": {"channel": "unbuffered"}}, server, scene)

    not_ok(played)
    assert played.run
    held = played.run.escalations.get()
    assert (held.state, held.decided_by) == (EscalationState.OPEN, None)
    phases.decide(scene, played.run, approve=True)
    answer = Event.objects.get(run=played.run, kind="escalation.decided")
    assert (answer.actor, answer.facts["escalation"]) == ("rita", held.pk)


def unreadable_is_not_met(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q2: SUPERVISE is not skipped."""
    played = play(case, server, scene)

    assert played.rounds[0]["triggers"] == ["commitment_not_met", "assessment_unparseable"]
    assert played.phases[-1] == "SUPERVISE"
    not_ok(played)


def the_judge_sees_what_was_done(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q3: the judge has a role of its own and sees the output, also of a clean round."""
    played = play(case, server, scene, strict=True)

    judged = [call["told"] for call in played.calls if call["phase"] == "SUPERVISE"]
    assert judged[0]["output"] == played.rounds[0]["post"]["actual_output"]
    assert judged[0]["done"] == []
    if "supervisor_llm" not in case and case["id"] == "svc-033":
        not_ok(played)  # nobody vouches for it but the agent itself


def a_refusal_refuses(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q4: yes and no are a decision, not words."""
    played = play(case, server, scene, person=denying)

    assert played.result["stop_reason"] == "denied_by_human"
    assert played.result["history"][-1]["person"]["by"] == "rita"
    not_ok(played)


def what_is_approved_ships(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q5: approving takes the very output that was shown; nothing is run again."""
    played = play(case, server, scene, person=approving)

    assert played.run
    held = played.run.escalations.order_by("pk").last()
    assert held
    shown = held.action["post"]["actual_output"]
    assert played.result["status"] == "ok"
    assert played.result["outputs"][held.action["name"]] == shown
    assert len(played.rounds) == played.phases.count("POST")

    corrected = play(case, server, scene)

    assert corrected.phases.count("POST") > played.phases.count("POST")
    assert corrected.rounds[-1]["round"] == corrected.phases.count("POST")


def unknown_asks_a_person(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q6: whatever is no verdict goes to people, and stops where there are none."""
    played = play(case, server, scene)

    assert played.rounds[-1]["verdict"]["verdict"] == "ask_human"
    assert played.result["stop_reason"] == "nobody_to_ask"
    not_ok(played)


def the_stricter_wins(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q7: a step cannot lower what its workflow demands."""
    with_people = {**case, "human": {"channel": "unbuffered"}}
    played = play(with_people, server, scene)

    assert played.result["status"] == "waiting"
    assert played.result["escalation"]["kind"] == "output"


def a_missing_commitment_counts(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q8: without an intent to compare with, and with little confidence, somebody looks."""
    unsure = case["id"] == "svc-019"
    played = play(case, server, scene, strict=unsure)

    trigger = "confidence:low" if unsure else "commitment_missing"
    assert trigger in played.rounds[0]["triggers"]
    assert "SUPERVISE" in played.phases
    not_ok(played)


def the_question_says_something(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q9: where the judge asks nothing, what it knew is asked."""
    played = play(case, server, scene, person=denying)

    assert played.run
    held = played.run.escalations.order_by("pk").last()
    assert held
    verdict, asked = held.action["verdict"], held.action["question"]
    assert verdict["reason"]  # what the judge knew is before the person in any case
    if not verdict["question"]:
        known = [verdict["reason"], verdict["correction"], *held.action["triggers"]]
        assert all(part in asked for part in known)


def waiting_ends(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q10: a question waits as a row, expires, and can be called off; nothing hangs."""
    asking = {**case, "human": {"channel": "unbuffered"}}
    waits = play(asking, server, scene).run
    assert waits
    assert (waits.state, waits.lease_owner) == (RunState.WAITING, "")
    assert waits.escalations.get().expires_at > waits.created_at

    phases.cancel_run(scene, waits, "")
    assert fresh(waits).stop_reason == "cancelled"
    silent = {**asking, "human": {"channel": "unbuffered", "silent": True}}
    expired = play(silent, server, scene, person=phases.let_expire)
    assert expired.result["stop_reason"] == "escalation_expired"


def a_reorient_says_how(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q11: running the same thing again is no correction."""
    played = play(case, server, scene)

    assert played.phases.count("EXECUTE") == 1
    assert played.rounds[0]["verdict"]["verdict"] == "ask_human"


def blanks_say_nothing(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q12."""
    played = play(case, server, scene)

    assert played.rounds[0]["triggers"] == []


def decided_and_documented(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q13: after a reorient the judge looks again, and the commitment stays."""
    played = play(case, server, scene)

    assert played.phases.count("COMMIT") == 1
    assert played.phases.count("SUPERVISE") == played.phases.count("POST") == 2
    if "outputs" in case["expect"]:
        assert played.result["outputs"] == case["expect"]["outputs"]
    else:
        assert played.result["error"] == case["expect"]["error"]


def cut_between_characters(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q14."""
    question = play(case, server, scene).rounds[0]["question"]

    assert "\ufffd" not in question
    reply = case["supervisor_llm"][0]
    assert f"{reply[:500]}…" in question or reply in question


def satisfied_means_satisfied(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q15: "NOT CONVERGED" does not end the loop, and a first reply's text counts."""
    played = play(case, server, scene)

    if case["id"] == "svc-112":
        assert played.result["outputs"]["draft"].strip()
        assert played.phases == ["EXECUTE"]
        return
    assert played.phases.count("EXECUTE") > 1 + case["agent_llm"].index(
        next(text for text in case["agent_llm"] if "NOT CONVERGED" in text)
    )


def the_correction_arrives(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q16: every iteration after a correction is told of it."""
    played = play(case, server, scene)

    posted = played.phases.index("POST")
    later = [call["told"] for call in played.calls[posted:] if call["phase"] == "EXECUTE"]
    described = case["steps"][0]["description"]
    assert later
    assert all(told["instruction"].startswith(f"{described}\n\n") for told in later)
    assert all(told["instruction"].removeprefix(described).strip() for told in later)


def earlier_steps_have_names(case: Case, server: ReplayServer, scene: Scene) -> None:
    """SVC-Q17: $a is the output of the step a; a step that comes later has none yet."""
    lasting = [*case["agent_llm"], *["more"] * 9]
    played = play({**case, "agent_llm": lasting}, server, scene)
    assert played.refused == ""

    backwards = play({**case, "steps": case["steps"][::-1]}, server, scene)
    assert "$a is not declared" in backwards.refused


SAFE: dict[str, Check] = {
    "SVC-Q1": nobody_approves_themselves,
    "SVC-Q2": unreadable_is_not_met,
    "SVC-Q3": the_judge_sees_what_was_done,
    "SVC-Q4": a_refusal_refuses,
    "SVC-Q5": what_is_approved_ships,
    "SVC-Q6": unknown_asks_a_person,
    "SVC-Q7": the_stricter_wins,
    "SVC-Q8": a_missing_commitment_counts,
    "SVC-Q9": the_question_says_something,
    "SVC-Q10": waiting_ends,
    "SVC-Q11": a_reorient_says_how,
    "SVC-Q12": blanks_say_nothing,
    "SVC-Q13": decided_and_documented,
    "SVC-Q14": cut_between_characters,
    "SVC-Q15": satisfied_means_satisfied,
    "SVC-Q16": the_correction_arrives,
    "SVC-Q17": earlier_steps_have_names,
}
