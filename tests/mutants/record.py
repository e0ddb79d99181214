"""The guards of the record, each left out once."""

from tests.mutants.plant import Mutant

COLUMNS = "tests/audit/test_columns.py"
SEALED = "tests/audit/test_sealed.py"
ARCHIVE = "tests/audit/test_archive.py"
BUNDLE = "tests/audit/test_bundle.py"
ATTACKS = "tests/audit/test_bundle_attacks.py"
HEADS, VERIFIER = "agents/record/seals.py", "scripts/verify_bundle.py"


def _without_guard(name: str, path: str, guard: str, tests: str) -> Mutant:
    """Return the mutant in which a condition never holds."""
    return Mutant(name, path, f"if {guard}:", "if False:", tests)


RECORD = (
    Mutant(
        "events go although their archive is in no seal",
        "agents/audit/protection.py",
        " AND s.event_count >= a.seq)",
        ")",
        f"{ARCHIVE} -k sealed_archive",
    ),
    _without_guard(
        "a verification goes on from what anybody wrote",
        "agents/audit/verify.py",
        "not key or not hmac.compare_digest(row.proof, verified.proof(row.pk, key))",
        "tests/audit/test_verified.py -k no_less",
    ),
    Mutant(
        "a write of unknown end is archived",
        "agents/audit/archiving.py",
        "        | Exists(Effect.objects.filter(**of_run, state__in=UNSETTLED))\n",
        "",
        f"{ARCHIVE} -k unknown",
    ),
    Mutant(
        "an archive names runs of which its event did not tell",
        "agents/audit/rows_in_tables.py",
        "Derived(stand, (archive.runs, archive.tombstones))",
        "Derived(stand, stand)",
        f"{ARCHIVE} -k pass_for_one",
    ),
    Mutant(
        "what stays of an archived run may be anything",
        "agents/audit/chains.py",
        "digests[run] == grave.sha256",
        "True",
        f"{ARCHIVE} -k pass_for_one",
    ),
    Mutant(
        "events go although the file of their archive was altered",
        "agents/audit/archiving.py",
        "    files.take_places()\n    _check_files(files, archive)",
        "    files.take_places()",
        f"{ARCHIVE} -k altered",
    ),
    Mutant(
        "a reference need not be of its own run or workspace",
        "agents/audit/rows_in_tables.py",
        'wrong = rows.filter(**{f"{name}__isnull": False}).exclude(**{leads: F(home)})',
        "wrong = rows.none()",
        f"{COLUMNS} -k Escalation",
    ),
    Mutant(
        "a run may act on another workspace's book",
        "agents/models/belonging.py",
        "return belongs(Run, at) & has_own_book(at)",
        "return belongs(Run, at)",
        "tests/audit/test_misplaced.py -k book",
    ),
    _without_guard(
        "a run goes on under another workspace's policy",
        "agents/engine/lease.py",
        'not vars(run).pop("is_placed")',
        "tests/audit/test_misplaced.py -k policy",
    ),
    Mutant(
        "a request that was moved is decided",
        "agents/models/belonging.py",
        'return belongs(Escalation) & run_belongs("run__")',
        'return run_belongs("run__")',
        "tests/audit/test_misplaced.py -k moved",
    ),
    Mutant(
        "an approval that was paid may say that it was not",
        "agents/audit/rows_in_tables.py",
        "if _is_closed_untold(escalation) and escalation.pk not in carried_out:",
        "if _is_closed_untold(escalation):",
        "tests/audit/test_rows.py -k undone",
    ),
    Mutant(
        "amounts need not be those of the arguments",
        "agents/audit/rows_in_tables.py",
        "    named = target._asdict()",
        "    named = dict[str, Json]()",
        "tests/audit/test_rows.py -k currency",
    ),
    Mutant(
        "who launched the first run decides about the next",
        "agents/engine/deciders.py",
        "before = run.again_of_id",
        "before = None",
        "tests/engine/test_run.py -k launched_a_run",
    ),
    _without_guard(
        "an event's content is not hashed again",
        "agents/record/chain.py",
        "event.hash != _link(event)",
        "tests/audit/test_record.py -k found",
    ),
    _without_guard(
        "the end of a chain is not held against its row",
        "agents/record/chain.py",
        "previous != head",
        "tests/audit/test_record.py -k rehash-None",
    ),
    _without_guard(
        "a shorter chain than its row says holds",
        "agents/record/chain.py",
        "seq != count",
        "tests/audit/test_record.py -k cut-None",
    ),
    _without_guard(
        "a seal is not reckoned again",
        HEADS,
        "key and not is_sealed(head, key)",
        f"{SEALED} -k content_was_changed",
    ),
    _without_guard(
        "a head need not follow the one before",
        HEADS,
        "head.before != self.before",
        "tests/audit/test_seals.py",
    ),
    Mutant(
        "heads are not held against the copy",
        HEADS,
        "found = [ours.fault, unlike, *gaps[: unlike is None]]",
        "found = [ours.fault]",
        f"{SEALED} -k older_database",
    ),
    _without_guard(
        "a head that the copy has as another is forgiven",
        HEADS,
        "here != there",
        "tests/audit/test_seals.py",
    ),
    _without_guard(
        "an event need not be the one that was sealed",
        "agents/audit/chains.py",
        "event.hash != wanted != _UNKNOWN[0] and self.unlike is None",
        f"{SEALED} -k hashed_anew",
    ),
    _without_guard(
        "a chain may be shorter than it was sealed",
        "agents/audit/chains.py",
        "left := sum(1 for _ in self.sealed)",
        f"{SEALED} -k hashed_anew",
    ),
    Mutant(
        "a sealed chain may be gone",
        "agents/audit/verify.py",
        "in _vanished_chains(sealed, set(map(str, others)))",
        "in ()",
        f"{SEALED} -k gone",
    ),
    Mutant(
        "triggers may be missing",
        "agents/audit/verify.py",
        "build = protection.inspect(connections[DEFAULT_DB_ALIAS])",
        "build = protection.Build({}, {})",
        "tests/audit/test_build.py -k trigger",
    ),
    _without_guard(
        "an older database is sealed over",
        "agents/audit/sealing.py",
        "stored is None or stored.plain() != last",
        f"{SEALED} -k sealed_over",
    ),
    _without_guard(
        "the verifier does not hash again",
        VERIFIER,
        'sha256({**covered, "previous": chain.previous}) != event["hash"]',
        f"{BUNDLE} -k hashed_anew",
    ),
    _without_guard(
        "the verifier does not look at seals of events",
        VERIFIER,
        'chain.seq <= len(seals) and seals[chain.seq - 1] != event["hash"]',
        f"{BUNDLE} -k hashed_anew",
    ),
    _without_guard(
        "the verifier forgives a cut tail",
        VERIFIER,
        "not chain.bad and chain.seq < wanted",
        f"{BUNDLE} -k hashed_anew",
    ),
    _without_guard(
        "the verifier does not reckon seals again",
        VERIFIER,
        "keys and keyed(keys[self.key], canonical(self.covered)) != self.seal",
        f"{BUNDLE} -k forged_copy",
    ),
    _without_guard(
        "the verifier does not compare with heads kept elsewhere",
        VERIFIER,
        "is_other",
        f"{BUNDLE} -k forged_copy",
    ),
    _without_guard(
        "the verifier lets a part of the copy's own workspace be hidden",
        VERIFIER,
        "head.parts is not None and head.others.keys() & self.workspaces.keys()",
        f"{ATTACKS} -k hide_own_part",
    ),
    _without_guard(
        "the verifier takes a chain twice",
        VERIFIER,
        "chain.name in self.ended",
        f"{ATTACKS} -k repeat_as",
    ),
    Mutant(
        "the verifier does not hold a cut against newer heads",
        VERIFIER,
        "if pk not in self.workspaces or pk in over or read >= reach[chain]:",
        "if True:",
        f"{BUNDLE} -k older_copy_is_found",
    ),
    _without_guard(
        "the verifier forgives chains that only older heads sealed",
        VERIFIER,
        "self.first_bound > 1",
        f"{ATTACKS} -k only_older_heads",
    ),
    _without_guard(
        "the verifier takes what is in no seal for as old as it says",
        VERIFIER,
        "newest and self.loose and time_of(min(self.loose)[0]) < time_of(newest) - LATE",
        f"{ATTACKS} -k invent",
    ),
    _without_guard(
        "a file of heads that is gone is begun anew",
        "agents/audit/sealing.py",
        "not begin_file and (count := Head.objects.filter(number__gt=1).count())",
        f"{SEALED} -k missing_heads_file",
    ),
    Mutant(
        "the verifier takes a download that broke off",
        VERIFIER,
        'raise Broken("it breaks off: the last line is missing")',
        "return",
        f"{BUNDLE} -k broke_off",
    ),
)
