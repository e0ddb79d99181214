"""What the demo's models say at this desk: lines of scenarios, and of goals like them.

It is no language model: of a goal that is no scenario it takes the customer (`user_id=7`,
`customer 7`, Anna or Max) and, where a refund is asked for, an amount (`500 USD`, `$500`). Of a
goal that is not the desk's business it has nothing to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agents.desks.refunds.declared import desk
from agents.desks.refunds.ticket_topics import TOPICS, is_about
from opsconsole.desks import Answers, Judge, OutputOf, Plans, Routes, Says, Step

ANNA, MAX = 42, 7  # the demo's customers
WORKERS = ("sales_worker", "payments_worker", "inventory_worker")
CHARGED = {
    ANNA: ("Anna", "annual enterprise", "1,200.00 USD, 10 days ago"),
    MAX: ("Max", "pro monthly", "49.00 USD, 35 days ago"),
}
LETTER = (
    "[[greeting]]\n\nThank you for your question. Here is what we see:\n\n[[charge]] [[window]]"
)
FALSE_CLAIM = "[[greeting]]\n\nYour charge was refunded in full. [[charge]]"
OWN_WORDS = (
    "[[greeting]]\n\nThank you for your question. As promised we know that Customer 42 is Anna "
    "with the plan annual enterprise; the last charge was 1,200.00 USD, 10 days ago."
)
CORRECTION = "Claim no refund, because the ledger holds none. Say only what the facts say."
CORRECTED = Judge("draft", "reorient", "It claims a refund.", CORRECTION)
ON_HOLD = Judge("facts", "halt", "The case is on legal hold.")
_TASTE = "The tone is a matter of taste. May this draft be used?"
IN_DOUBT = Judge("draft", "ask_human", "Nothing decides it.", question=_TASTE)
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


def refund(customer: int, amount: int, reason: str | None = "", says: type[Says] = Says) -> Says:
    """Return the proposal of a refund; without a reason if that is None."""
    _, plan, _ = CHARGED.get(customer, ("", "the charge", ""))
    given: dict[str, Any] = (
        {} if reason is None else {"reason": reason or f"Asked for a refund: {plan}"}
    )
    return says("issue_refund", user_id=customer, amount_minor=amount, **given)


def paid(customer: int, amount: int, reason: str | None = "") -> list[Says | Answers]:
    """Return what is said from the look into the record to the answer."""
    about: dict[str, Any] = {"user_id": customer, "amount_minor": amount}
    told = f"{amount / 100:,.2f} USD"
    mail = Says("send_refund_email", **about, message=f"Your refund of {told} was issued.")
    answer = f"The refund of {told} to customer {customer} went through; an email was sent."
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
    told = "\n".join(f"{side}: {text}" for side, text in sides.items())
    text = f"{told}\nRecommendation: keep to the terms.\n\n{fields}"
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
