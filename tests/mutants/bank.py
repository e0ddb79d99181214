"""The guards of a transfer, each broken once."""

from tests.mutants.plant import Mutant

JOURNEY, BOOKS = "tests/desks/test_bank.py", "tests/desks/test_bank_books.py"
RECORD, READS = "tests/desks/test_books_in_record.py", "agents/audit/rows_in_tables.py"
LOOKED_UP = "tests/desks/test_looked_up.py -k attackers"
RULES, LEDGER = "agents/desks/bank/rules.py", "agents/desks/bank/ledger.py"

BANK = (
    Mutant(
        "what an outsider named counts as named",
        "agents/sdk/facts.py",
        "return self in (Origin.GOAL, Origin.PERSON)",
        "return self in (Origin.GOAL, Origin.PERSON, Origin.OUTSIDE)",
        f"{JOURNEY} -k attack",
    ),
    *(
        Mutant(name, "agents/engine/desk/review_context.py", was, now, tests)
        for name, was, now, tests in (
            ("one of several counts as looked up", "== {part.casefold()}", "> set()", LOOKED_UP),
            (
                "what a call echoes counts as looked up",
                " and not is_named(part, texts)",
                "",
                LOOKED_UP,
            ),
            (
                "whatever an agent looks up counts",
                "tool.vouches if is_asked and",
                "tool.vouches if",
                LOOKED_UP,
            ),
            (
                "what an agent entered counts as looked up",
                "return is_found and not is_named(part, self._entered)",
                "return is_found",
                LOOKED_UP,
            ),
            (
                "what came before has no outsiders",
                "return [*earlier, *(",
                "return [*(",
                "tests/desks/test_answers.py -k source",
            ),
        )
    ),
    Mutant(
        "an answer after a no is lost",
        "agents/patterns/supervisor.py",
        "    if block.reason == _SENT_BACK:",
        "    if False:",
        "tests/engine/test_send_back.py -k answers_after",
    ),
    Mutant(
        "a first payment needs nobody",
        RULES,
        "if facts.is_paid_before and",
        "if True or",
        f"{JOURNEY} -k first_payment",
    ),
    Mutant(
        "what a person set counts in every call",
        "agents/engine/desk/review_context.py",
        "    return patch if left == given else {}",
        "    return patch",
        f"{BOOKS} -k elsewhere",
    ),
    Mutant(
        "what is under way is not counted",
        "agents/core/states.py",
        "MAYBE_DONE = (EffectState.INTENDED, EffectState.DONE, EffectState.UNKNOWN)",
        "MAYBE_DONE = (EffectState.DONE,)",
        f"{BOOKS} -k counts",
    ),
    Mutant(
        "currencies are added",
        "agents/engine/desk/review_context.py",
        " if one.currency == currency",
        "",
        f"{BOOKS} -k currencies",
    ),
    Mutant(
        "a key pays what it was not held for",
        LEDGER,
        '            raise CallRefused("key_of_another_transfer")\n',
        "            pass\n",
        f"{BOOKS} -k key",
    ),
    Mutant(
        "what other transfers hold is free",
        LEDGER,
        "payer.free_minor < amount.minor",
        "payer.opening_minor < amount.minor",
        f"{BOOKS} -k holds",
    ),
    Mutant(
        "no amount at all is moved",
        "agents/engine/desk/rules.py",
        "if money is not None and money.minor < 1:",
        "if False:",
        f"{BOOKS} -k nothing",
    ),
    Mutant(
        "what a desk's books hold is not compared",
        READS,
        "if tool.booked is None or not mine:",
        "if True:",
        f"{RECORD} -k no_call_left",
    ),
    Mutant(
        "a row of a desk's books is taken for that of any tool",
        READS,
        "Effect.objects.filter(tool=tool.name, key=OuterRef(tool.booked.key))",
        "Effect.objects.filter(key=OuterRef(tool.booked.key))",
        f"{RECORD} -k no_call_left",
    ),
    Mutant(
        "an account is forgotten, its bills are not",
        LEDGER,
        '    Invoice.objects.filter(account__in=mine).update(text="")\n',
        "",
        f"{RECORD} -k forgotten",
    ),
)
