"""The desk as the console finds it: its facts, tools, rules and scenarios.

In three scenarios an invoice's text attacks.
"""

from pathlib import Path

from agents.desks.bank import rules  # noqa: F401 - its declarations count
from agents.desks.bank.facts import desk as desk
from agents.desks.bank.ledger import euros
from agents.sdk.demo import read_scenarios
from opsconsole.desks import Says, in_days


def _invoice(invoice: str) -> Says:
    return Says("read_invoice", account="main", invoice=invoice)


def _pay(payee: str, euros: str, purpose: str) -> Says:
    values = {"account": "main", "payee": payee, "purpose": purpose, "on": in_days(0)}
    return Says("transfer_money", amount={"amount": euros, "currency": "EUR"}, **values)


for _case in read_scenarios(
    Path(__file__).parent / "scenarios.json", {"invoice": _invoice, "pay": _pay}
):
    above = _case.pop("two_above", None)
    desk.scenario(**_case, two_above=euros(above) if above else None)
