"""What a safe system does where the reference's routing has a hole: one check a quirk.

A check reads the printed result of a case, run under `strict` with subject 42; a case that has
a config of its own, faults or a small budget, is run with it and so under `reference`.
"""

from tests.conformance.safe import Check, Result, assert_stopped

Case = dict[str, object]


def only_the_subject(case: Case, result: Result) -> None:
    """ROU-Q1: whoever the ticket names, it is the run's subject who is looked up."""
    found = [past["observation"]["result"] for past in result["history"]]
    assert [looked_up["user_name"] for looked_up in found] == ["Anna"]


def whole_words_count(case: Case, result: Result) -> None:
    """ROU-Q2: who is not sure that it is theirs sends it on."""
    assert result["history"][0]["observation"]["status"] == "needs_reroute"
    assert result["status"] == "stopped"
    assert "answer" not in result


def reply_is_checked(case: Case, result: Result) -> None:
    """ROU-Q3, Q4: what is out of contract is named so, and nothing is answered from it."""
    assert_stopped(result, "route_bad_observation")
    assert result["phase"] == "delegate"
    assert result["expected_statuses"] == ["needs_reroute", "done"]
    assert "answer" not in result


def people_take_over(case: Case, result: Result) -> None:
    """ROU-Q5: a case that nobody takes has a phase, and goes to people where there are any."""
    if case["config"]:  # a budget of its own, so replayed, and a replay has no inbox
        assert_stopped(result, "max_route_attempts")
        assert result["phase"] == "route"
        return
    assert result["status"] == "waiting"
    assert result["escalation"]["kind"] == "hand_over"
    tried = [past["target"] for past in result["escalation"]["action"]["tried"]]
    assert tried == ["technical_specialist", "sales_specialist", "billing_specialist"]


def refused_is_refused(case: Case, result: Result) -> None:
    assert_stopped(result, "invalid_route:repeat_target_after_reroute")
    assert len(result["history"]) == 2


def arguments_are_checked(case: Case, result: Result) -> None:
    assert_stopped(result, "invalid_route:extra_args")
    assert result["trace"] == []


def blame_is_right(case: Case, result: Result) -> None:
    assert_stopped(result, "route_error:billing_specialist")


def out_of_time(case: Case, result: Result) -> None:
    assert_stopped(result, "max_seconds")
    assert "answer" not in result


def model_error_is_named(case: Case, result: Result) -> None:
    if case["id"] == "rou-105":
        assert_stopped(result, "invalid_route:non_json")
        return
    assert_stopped(result, "llm_rate_limited|llm_error|llm_bad_response")
    assert result["phase"] == ("finalize" if result["history"] else "route")


def kind_is_bad(case: Case, result: Result) -> None:
    assert_stopped(result, "invalid_route:bad_kind")


def answer_has_evidence(case: Case, result: Result) -> None:
    """ROU-Q13: what is answered is what was found, in the desk's words."""
    if result["status"] == "stopped":
        assert_stopped(result, "route_bad_observation")
        assert "answer" not in result
        return
    assert result["answer"].startswith("A refund of USD 49.00 is possible; this run paid nothing.")
    assert "1000" not in result["answer"]


def allowlist_comes_first(case: Case, result: Result) -> None:
    assert_stopped(result, "invalid_route:route_not_allowed:fraud_specialist")


def ticket_is_bounded(case: Case, result: Result) -> None:
    """ROU-Q16: a ticket is short, and what it says moves neither findings nor answer."""
    if case["id"] == "rou-090":
        assert_stopped(result, "invalid_route:bad_ticket")
        return
    assert result["status"] == "ok"
    assert result["history"][0]["observation"]["result"]["refund_amount_usd"] == 49.0
    assert "10000" not in result["answer"]


def key_once(case: Case, result: Result) -> None:
    assert_stopped(result, "invalid_route:non_json")


SAFE: dict[str, Check] = {
    "ROU-Q1": only_the_subject,
    "ROU-Q2": whole_words_count,
    "ROU-Q3": reply_is_checked,
    "ROU-Q4": reply_is_checked,
    "ROU-Q5": people_take_over,
    "ROU-Q6": refused_is_refused,
    "ROU-Q8": arguments_are_checked,
    "ROU-Q9": blame_is_right,
    "ROU-Q10": out_of_time,
    "ROU-Q11": model_error_is_named,
    "ROU-Q12": kind_is_bad,
    "ROU-Q13": answer_has_evidence,
    "ROU-Q14": allowlist_comes_first,
    "ROU-Q16": ticket_is_bounded,
    "ROU-Q17": key_once,
}
