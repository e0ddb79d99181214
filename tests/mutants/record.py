"""The guards of the record, each left out once."""

from tests.mutants.plant import Mutant

SEALED = "tests/audit/test_sealed.py"
BUNDLE = "tests/audit/test_bundle.py"
HEADS, VERIFIER = "agents/audit/seals.py", "scripts/verify_bundle.py"


def _left_out(name: str, path: str, guard: str, tests: str) -> Mutant:
    """Return the mutant in which a condition never holds."""
    return Mutant(name, path, f"if {guard}:", "if False:", tests)


RECORD = (
    _left_out(
        "an event's content is not hashed again",
        "agents/audit/chain_faults.py",
        "event.hash != _link(event)",
        "tests/audit/test_record.py -k found",
    ),
    _left_out(
        "the end of a chain is not held against its row",
        "agents/audit/chain_faults.py",
        "previous != head",
        "tests/audit/test_record.py -k found",
    ),
    _left_out(
        "a shorter chain than its row says holds",
        "agents/audit/chain_faults.py",
        "seq != count",
        "tests/audit/test_record.py -k found",
    ),
    _left_out(
        "a seal is not reckoned again",
        HEADS,
        "not hmac.compare_digest(_seal(head, key).encode(), head.seal.encode())",
        f"{SEALED} -k content_was_changed",
    ),
    _left_out(
        "a head need not follow the one before",
        HEADS,
        "head.before != before",
        "tests/audit/test_seals.py",
    ),
    Mutant(
        "heads are not held against the copy",
        HEADS,
        "faults = [first_bad_head(stored, key_of), first_difference(kept, stored)]",
        "faults = [first_bad_head(stored, key_of)]",
        f"{SEALED} -k older_copy",
    ),
    _left_out(
        "a head that the copy has as another is forgiven",
        HEADS,
        "here != head",
        "tests/audit/test_seals.py",
    ),
    _left_out(
        "an event need not be the one that was sealed",
        HEADS,
        "found != wanted",
        f"{SEALED} -k hashed_anew",
    ),
    _left_out(
        "a chain may be shorter than it was sealed",
        HEADS,
        "seq < len(seals)",
        f"{SEALED} -k hashed_anew",
    ),
    _left_out(
        "a sealed chain may be gone",
        "agents/audit/verify.py",
        "workspaces.count() == Workspace.objects.count()",
        f"{SEALED} -k gone",
    ),
    Mutant(
        "triggers may be missing",
        "agents/audit/verify.py",
        "lost = triggers.missing(connections[DEFAULT_DB_ALIAS])",
        "lost = list[str]()",
        f"{SEALED} -k trigger",
    ),
    _left_out(
        "an older database is sealed over",
        "agents/audit/sealing.py",
        "stored is None or stored.plain() != last",
        f"{SEALED} -k sealed_over",
    ),
    _left_out(
        "the verifier does not hash again",
        VERIFIER,
        'sha256({**covered, "previous": self.previous}) != event["hash"]',
        f"{BUNDLE} -k hashed_anew",
    ),
    _left_out(
        "the verifier does not look at seals of events",
        VERIFIER,
        'self.seq <= len(seals) and seals[self.seq - 1] != event["hash"]',
        f"{BUNDLE} -k hashed_anew",
    ),
    _left_out(
        "the verifier forgives a cut tail",
        VERIFIER,
        "not self.bad and self.seq < wanted",
        f"{BUNDLE} -k hashed_anew",
    ),
    _left_out(
        "the verifier does not reckon seals again",
        VERIFIER,
        'keyed(key, canonical({**covered, "moved": leaves})) != head["seal"]',
        f"{BUNDLE} -k made_anew",
    ),
    _left_out(
        "the verifier does not compare with heads kept elsewhere",
        VERIFIER,
        'kept and (kept["seal"], kept["leaves"]) != (head["seal"], leaves)',
        f"{BUNDLE} -k made_anew",
    ),
    Mutant(
        "the verifier takes a download that broke off",
        VERIFIER,
        'raise Broken("it breaks off: the last line is missing")',
        "return",
        f"{BUNDLE} -k broke_off",
    ),
)
