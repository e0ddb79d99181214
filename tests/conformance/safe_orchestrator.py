"""What a safe system does where the reference's orchestrator has a hole: one check a quirk.

A check reads the printed result of a case, run under `strict`. What only faults or a small budget
show is run with the case's config and so under `reference`; what a plan shows is not.
"""

from typing import Any

from tests.conformance.safe import Check, Result, assert_stopped

Case = dict[str, Any]

INVALID = "invalid_plan:"
SHOWN_BY_PLAN = {"ORC-Q1", "ORC-Q3"}


def assert_refused(result: Result, *reasons: str) -> None:
    """The plan was refused for one of these reasons, before any task began."""
    assert result["stop_reason"].removeprefix(INVALID).startswith(reasons), result["stop_reason"]
    assert (result["phase"], result["trace"]) == ("plan", [])


def scope_is_the_runs(case: Case, result: Result) -> None:
    """ORC-Q1: no facts of another day or region stand under the run's heading."""
    if case["id"] == "orc-054":  # " US " is the run's region; what is wrong is who is left out
        assert_refused(result, "worker_required")
        return
    assert_refused(result, "args_mismatch", "duplicate_worker", "bad_arg_type", "non_json")


def missing_is_unknown(case: Case, result: Result) -> None:
    """ORC-Q2: green only where every fact is there."""
    found = result.get("aggregate")
    if found is None:
        assert result["status"] == "stopped"
        return
    if found["health"] == "green":
        assert found["payments"].get("failed_payment_rate") is not None
        assert "out_of_stock_skus" in found["inventory"]
        assert found["failed_tasks"] == []
    if found["failed_tasks"]:
        assert found["health"] in ("unknown", "red")
        assert found["missing"]


def failure_is_named(case: Case, result: Result) -> None:
    """ORC-Q4: whatever a worker raises, and whatever a plan holds, ends with a reason."""
    if case["config"]:
        failed = [done for done in result["history"] if done["status"] == "failed"]
        assert [f"worker_error:{done['worker']}" for done in failed] == [
            done["stop_reason"] for done in failed
        ]
        assert failed
        return
    assert_refused(result, "bad_arg_type")


def policy_decides_who_works(case: Case, result: Result) -> None:
    """ORC-Q3: a plan leaves nobody out whom the policy requires."""
    assert_refused(result, "worker_required", "missing_arg", "args_mismatch", "critical")


def time_is_kept(case: Case, result: Result) -> None:
    assert_stopped(result, "max_seconds")


def done_work_is_kept(case: Case, result: Result) -> None:
    """ORC-Q6: what was finished at the deadline is on record, with what was not."""
    assert_stopped(result, "max_seconds")
    assert [done["worker"] for done in result["history"] if done["status"] == "done"] == [
        "sales_worker"
    ]
    assert [line["status"] for line in result["trace"]] == ["done", "failed"]


def replies_are_checked(case: Case, result: Result) -> None:
    reasons = [line["stop_reason"] for line in result["trace"] if line["status"] == "failed"]
    assert reasons
    assert all(reason.startswith("worker_bad_result:") for reason in reasons)


def model_error_is_named(case: Case, result: Result) -> None:
    """ORC-Q15: the run ends with a reason, and in finalize with the aggregate."""
    if case["id"] == "orc-128":
        assert_stopped(result, "invalid_plan:non_json")
        return
    if result["stop_reason"].startswith(INVALID):  # strict refuses the plan before the brief
        assert_refused(result, "worker_required")
        return
    assert_stopped(result, "llm_rate_limited|llm_error|llm_bad_response")
    assert result["phase"] == "plan" or result["aggregate"]["sales"]


def worker_once(case: Case, result: Result) -> None:
    assert_refused(result, "duplicate_worker", "args_mismatch", "missing_arg", "extra_args")


def budget_is_the_runs(case: Case, result: Result) -> None:
    """ORC-Q10: dispatches are given out in the plan's order, and the run says they ran out."""
    assert_stopped(result, "max_dispatches")
    assert result["phase"] == "dispatch"
    late = [line["task_id"] for line in result["trace"] if line["stop_reason"] == "max_dispatches"]
    planned = [task["id"] for task in result["plan"]]
    assert late == planned[-len(late) :]


def brief_rests_on_facts(case: Case, result: Result) -> None:
    assert_refused(result, "worker_required", "missing_arg")


def ids_are_trimmed(case: Case, result: Result) -> None:
    assert_refused(result, "duplicate_task_id")


def names_are_right(case: Case, result: Result) -> None:
    # Under strict a fence is taken off, so that the plan within is refused for what it is.
    reasons = {"orc-065": "worker_required"}
    reasons |= dict.fromkeys(("orc-067", "orc-068", "orc-069"), "not_object")
    assert_refused(result, reasons.get(case["id"], "non_json"))


def blame_is_right(case: Case, result: Result) -> None:
    """ORC-Q12: what a worker raises is its own error, and is not tried again."""
    failed = result["trace"][0]
    assert failed["stop_reason"] == f"worker_error:{failed['worker']}"
    assert failed["attempts_used"] == 1


def arguments_are_checked(case: Case, result: Result) -> None:
    assert_refused(result, "extra_args", "missing_arg", "bad_arg_type")


def hash_is_of_what_runs(case: Case, result: Result) -> None:
    assert_refused(result, "args_mismatch", "non_json", "duplicate_worker")


def worker_is_trimmed(case: Case, result: Result) -> None:
    assert_refused(result, "worker_required")


SAFE: dict[str, Check] = {
    "ORC-Q1": scope_is_the_runs,
    "ORC-Q2": missing_is_unknown,
    "ORC-Q3": policy_decides_who_works,
    "ORC-Q4": failure_is_named,
    "ORC-Q5": time_is_kept,
    "ORC-Q6": done_work_is_kept,
    "ORC-Q7": worker_once,
    "ORC-Q8": ids_are_trimmed,
    "ORC-Q9": names_are_right,
    "ORC-Q10": budget_is_the_runs,
    "ORC-Q11": replies_are_checked,
    "ORC-Q12": blame_is_right,
    "ORC-Q13": arguments_are_checked,
    "ORC-Q15": model_error_is_named,
    "ORC-Q16": hash_is_of_what_runs,
    "ORC-Q17": worker_is_trimmed,
    "ORC-Q18": brief_rests_on_facts,
    "ORC-Q21": arguments_are_checked,
}
