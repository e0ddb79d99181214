"""Names that a desk cannot use: the console's own, and those unfit for ledger and pages."""

from __future__ import annotations

from collections.abc import Iterable

from agents.core.limits import KEYS

LONGEST_DESK, LONGEST_TOOL = 40, 60  # characters, as in the columns of runs and ledger
# Rules that the console adds to every desk: a call is about the run's subject, an answer agrees
# with the ledger, payments without a person have a daily cap; and to one with letters, that their
# words agree with the record.
OF_CONSOLE = ("bound", "answer", "caps", "letter")
# Those that it adds to a desk with reports, as `agents.policies.reports` names them.
OF_REPORTS = tuple(
    f"report_{name}"
    for name in (
        *("planned", "reading", "bound", "one_task_each", "complete", "critical"),
        *("briefed", "headed", "matches_facts"),
    )
)
# Topics of the shipped rules, patterns and pages, whose names would become ambiguous.
_TOPICS = {"answers", "delegation", "mail", "policy", "replies", "reports", "subject"}
_PATTERNS = {"external", "orchestrator", "routing", "supervisor", "workflow"}
_PAGES = {"agents", "api", "approvals", "audit", "become", "healthz", "keys", "kill", "launch"}
_PAGES |= {"invitations", "members", "notifications", "team", "teams", "webhooks"}
_PAGES |= {"metrics", "overview", "readyz", "runs", "search", "static", "theme"}
RESERVED = _TOPICS | _PATTERNS | _PAGES
_REPLIES = {"final", "final_answer", "tool"}  # kinds of a model's reply
_OF_CLIENTS = {"again", "ask_a_person"}  # tools that MCP clients have at every desk
_UNITS = ("_minor", "_usd")  # suffixes of the first desk's amounts, stored and for models


def check_desk_name(name: str) -> None:
    """Raise TypeError for a name that a desk may not have."""
    if not name.isidentifier() or len(name) > LONGEST_DESK:
        raise TypeError(
            f"a desk cannot be called {name!r}: up to {LONGEST_DESK} letters, digits, underscores"
        )
    if name in RESERVED:
        raise TypeError(f"a desk cannot be called {name}, which is a word of the console's own")


def check_limit_names(names: Iterable[str]) -> None:
    """Raise TypeError for a limit named like one of the whole policy."""
    if taken := sorted(set(names) & {*KEYS}):
        raise TypeError(f"a policy has a {taken[0]} for all desks: give the limit another name")


def check_tool_name(name: str, *, arguments: Iterable[str]) -> None:
    """Raise TypeError for a tool's or an argument's name that already has another meaning."""
    own = dict.fromkeys(_REPLIES, "a kind of reply")
    own |= dict.fromkeys(_OF_CLIENTS, "a tool of the console's own")
    if name in own or len(name) > LONGEST_TOOL:
        what = own.get(name, f"more than {LONGEST_TOOL} characters")
        raise TypeError(f"a tool cannot be called {name}: that is {what}")
    for argument in arguments:
        if argument.endswith(_UNITS):
            raise TypeError(f"{name}: {argument} is to be Money, and named without its unit")


def check_rule_name(name: str) -> None:
    """Raise TypeError for a rule that would replace one of the console's own."""
    if name in (*OF_CONSOLE, *OF_REPORTS):
        raise TypeError(f"every desk has the console's rule {name}: give yours another name")
