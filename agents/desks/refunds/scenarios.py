"""What the demo shows of refunds: what its models say, the scenarios, and a past fortnight.

The page shows the scenarios in their order. With the demo model each goal comes to the stated end;
a real model may take another way, but the policy still applies.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.desks.refunds import tools  # noqa: F401 - what scenarios use
from agents.desks.refunds.books import fill_past
from agents.desks.refunds.declared import desk
from agents.desks.refunds.patterns import TOPICS, is_about
from agents.sdk.demo import read_past, read_scenarios
from opsconsole.desks import Answers, Judge, OutputOf, Plans, Routes, Says, Step

# The demo model's replies, in scenarios and to goals like them. It is no language model. From other
# goals it takes the customer (`user_id=7`, `customer 7`, Anna or Max) and, for a refund, an amount
# (`500 USD`, `$500`). To all others it has no reply.

ANNA, MAX = 42, 7  # the demo's customers
WORKERS = ("sales_worker", "payments_worker", "inventory_worker")
CHARGED = {
    ANNA: ("Anna", "annual enterprise", "1,200.00 USD, 10 days ago"),
    MAX: ("Max", "pro monthly", "49.00 USD, 35 days ago"),
}
LETTER = (
    "[[greeting]]\n\nThank you for your question. Here is what we see:\n\n[[charge]] [[window]]"
)
_CUSTOMER = re.compile(r"\b(?:user|customer)(?:[_ ]?id)?\s*[=:#]?\s*(\d{1,18})\b", re.I)
_NUMBER = r"((?:\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.\d\d?)?)"
_AMOUNT = re.compile(
    rf"(?:USD|US\$|\$)\s*{_NUMBER}(?!\w|[.,]\w)"
    rf"|(?<![\w.,]){_NUMBER}\s*(?:(?:USD|US dollars?|dollars?)\b|\$)",
    re.I,
)
_ABOUT = r"\b(refund|charge|paid\b|invoice|customer|user|anna\b|max\b)"
_OURS = {  # what a goal is to name; specialists say themselves what is not theirs
    "supervisor": re.compile(_ABOUT, re.I),
    "orchestrator": re.compile(r"\b(report|brief|figures)", re.I),
    "workflow": re.compile(_ABOUT, re.I),
}
_PAYS_BACK = re.compile(r"\b(refund|reimburse|repay|back\b)", re.I)


def read(customer: int) -> Says:
    return Says("get_refund_context", user_id=customer)


def refund(customer: int, amount: int, reason: str | None = "") -> Says:
    """Return the proposal of a refund; without a reason if that is None."""
    _, plan, _ = CHARGED.get(customer, ("", "the charge", ""))
    given: dict[str, Any] = (
        {} if reason is None else {"reason": reason or f"Asked for a refund: {plan}"}
    )
    return Says("issue_refund", user_id=customer, amount_minor=amount, **given)


def paid(customer: int, amount: int, reason: str | None = "") -> list[Says | Answers]:
    """Return what is said from the look into the record to the answer."""
    about: dict[str, Any] = {"user_id": customer, "amount_minor": amount}
    amount_text = f"{amount / 100:,.2f} USD"
    mail = Says("send_refund_email", **about, message=f"Your refund of {amount_text} was issued.")
    answer = f"The refund of {amount_text} to customer {customer} went through; an email was sent."
    return [read(customer), refund(customer, amount, reason), mail, Answers(answer)]


def asks(*topics: str, text: str = "[[finding]]") -> list[Routes | Answers]:
    """Return what a router says who tries these specialists, and then the responder."""
    return [*(Routes(f"{topic}_specialist") for topic in topics), Answers(text)]


def _facts(customer: int) -> Step:
    name, plan, last = CHARGED.get(customer, ("", "", ""))
    known = f"is {name} with the plan {plan}; the last charge was {last}" if name else "is known"
    return Step("facts", read(customer), f"Customer {customer} {known}.")


def letter(customer: int, draft: str = LETTER, *, content: bool = True) -> list[Step | Judge]:
    """Return what is said where a reply is drafted, checked and sent."""
    send = Says("send_reply", user_id=customer, message=OutputOf("check"))
    check = Step("check", OutputOf("draft"), content=content)
    return [_facts(customer), Step("draft", draft), check, Step("send", send, "It was sent.")]


def memo(customer: int) -> list[Step]:
    """Return what is said where two agents argue and a third sums up."""
    sides = {"for": "The customer has been loyal.", "against": "The terms are clear."}
    fields = '{"recommendation": "keep to the terms", "amount": 0}'
    sides_text = "\n".join(f"{side.capitalize()}: {text}" for side, text in sides.items())
    text = f"{sides_text}\nRecommendation: keep to the terms.\n\n{fields}"
    return [_facts(customer), Step("memo", text, agents=sides)]


def report(workers: Sequence[str], text: str, **other: str) -> list[Plans | Answers]:
    return [Plans(*workers, **other), Answers(text)]


def play(goal: str, pattern: str) -> Sequence[Any]:
    """Return what is said of a goal that is no scenario, or nothing if it is of something else."""
    if pattern == "routing":
        return asks(*sorted(TOPICS, key=lambda topic: not is_about(topic, goal)))
    if not _OURS[pattern].search(goal):
        return ()
    if pattern == "orchestrator":
        return report(WORKERS, "The report has the figures, and the action that they call for.")
    number, names = _CUSTOMER.search(goal), re.findall(r"\bmax\b", goal, re.I)
    customer = int(number[1]) if number else MAX if names else ANNA
    if pattern == "workflow":
        return [*letter(customer), *memo(customer)]
    # The customer's number is removed first: in "customer 7 USD 50" it is not an amount.
    amount = _AMOUNT.search(_CUSTOMER.sub(" ", goal)) if _PAYS_BACK.search(goal) else None
    if amount:
        return paid(customer, round(float((amount[1] or amount[2]).replace(",", "")) * 100))
    return [read(customer), Answers("[[charge]] [[window]]")]


desk.play = play


# The scenarios, and the past fortnight: what customers asked for, and the reviewers' answers.

_HERE = Path(__file__).parent
_OWN = {one.__name__: one for one in (read, refund, paid, asks, letter, memo)}
for _case in read_scenarios(_HERE / "scenarios.json", _OWN):
    desk.scenario(**_case)
SCENARIOS = desk.scenarios
BY_KEY = {scenario.key: scenario for scenario in SCENARIOS}
desk.past = read_past(_HERE / "past.json", _OWN, fill_past)
