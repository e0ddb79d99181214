"""Changes to a copy by someone with neither key nor database are found."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.audit import copies, sealing
from agents.core.json_forms import sha256
from agents.models import Event, Head, Sealed, Workspace
from agents.people import workspaces
from agents.record import seals
from agents.record.seals import name_of, spell_time
from tests.audit.test_bundle import VERIFIER, Copy
from tests.commands.test_run_pattern import command
from tests.database import make_once
from tests.engine.scene import REFUND_500, go, set_scene

pytestmark = pytest.mark.django_db(transaction=True)


FULL = ("--head", "heads.jsonl", "--keys", "keys")


@pytest.fixture
def copy(heads_file: Path, settings: Any, tmp_path: Path) -> Copy:
    """A copy of the first of two workspaces: three sealed runs and an unsealed one."""
    return made_copy(heads_file, settings, tmp_path, older=0)


@pytest.fixture
def older_copy(heads_file: Path, settings: Any, tmp_path: Path) -> Copy:
    """A copy of a record whose first two heads are of version 1."""
    return made_copy(heads_file, settings, tmp_path, older=2)


def made_copy(file: Path, settings: Any, tmp_path: Path, *, older: int) -> Copy:
    """Return a copy in this test's own folder; it and its database are made once."""
    kept = make_once(f"{older} older", lambda: taken_copy(file, settings, tmp_path, older))
    folder = shutil.copytree(kept.folder, tmp_path / "clean")
    shutil.copy(folder / "heads.jsonl", file)
    return replace(kept, folder=folder)


def taken_copy(file: Path, settings: Any, tmp_path: Path, older: int) -> Copy:
    scene = set_scene()
    other = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())
    runs = []
    for number in range(1, 4):
        runs.append(go(scene.launch(REFUND_500)))
        copies.record_export(workspace=other, by=None, facts={}, at=timezone.now())
        if number <= older:
            seal_as_version_1(number, settings.OPSCONSOLE_AUDIT_KEY, file)
        else:
            assert command("seal_audit").code == 0
    go(scene.launch(REFUND_500))
    folder = tmp_path / "taken"
    folder.mkdir()
    shutil.copy(VERIFIER, folder)
    (folder / "keys").write_text(f"{settings.OPSCONSOLE_AUDIT_KEY}\n")
    taken = command("export_audit", "--workspace", "demo", "--output", str(folder / "record.jsonl"))
    assert taken.code == 0
    assert command("seal_audit").code == 0  # a head newer than the copy's
    shutil.copy(file, folder / "heads.jsonl")
    found = Copy(folder, run=str(runs[1].pk))
    found.read()
    return found


def seal_as_version_1(number: int, key: str, file: Path) -> None:
    """Seal as version 1 did: all workspaces' chains side by side."""
    moved: dict[str, list[str]] = {}
    reach = dict(Sealed.objects.values_list("chain", "event_count"))
    for event in Event.objects.order_by("pk"):
        name = name_of(workspace=event.workspace_id, run=event.run_id)
        if event.seq > reach.get(name, 0):
            moved.setdefault(name, []).append(event.hash)
    before = Head.objects.get(number=number - 1).seal if number > 1 else ""
    at = timezone.now()
    head = seals.seal_head(seals.SealedHead(number, spell_time(at), "", before, moved), key)
    Head.objects.create(
        number=number, at=at, key=head.key, before=before, moved=moved, seal=head.seal
    )
    for name, hashes in moved.items():
        count = reach.get(name, 0) + len(hashes)
        Sealed.objects.update_or_create(chain=name, defaults={"event_count": count})
    with sealing.open_heads(file) as kept:
        kept.add([head])


def demo() -> str:
    return str(Workspace.objects.get(slug="demo").pk)


def heads(copy: Copy) -> list[dict[str, Any]]:
    return [one["head"] for one in copy.documents if "head" in one]


def take_chain(copy: Copy, name: str) -> list[dict[str, Any]]:
    """Take a chain out of the copy and return its lines."""
    inside = False
    taken: list[dict[str, Any]] = []
    left: list[dict[str, Any]] = []
    for one in copy.documents:
        inside = one["chain"]["name"] == name if "chain" in one else inside and "event" in one
        (taken if inside else left).append(one)
    copy.documents = left
    return taken


def hide(copy: Copy) -> None:
    """Move the run's part of the heads to the part of other chains."""
    for head in heads(copy):
        part = head["workspaces"][demo()]
        hashes = part["moved"].pop(f"run/{copy.run}", None)
        if hashes:
            head["others"]["77"] = sha256({"moved": {f"run/{copy.run}": hashes}})


def forge_lines(copy: Copy) -> list[dict[str, Any]]:
    """Return the run's lines with a false history: decided by ada, one cent."""
    lines = deepcopy(take_chain(copy, f"run/{copy.run}"))
    previous = ""
    for event in (line["event"] for line in lines[1:]):
        event |= {"actor": "ada", "previous": previous}
        covered = {part: value for part, value in event.items() if part not in ("hash", "texts")}
        event["hash"] = previous = sha256(covered)
    lines[0]["chain"]["hash"] = previous
    return lines


def remove_run(copy: Copy) -> None:
    hide(copy)
    take_chain(copy, f"run/{copy.run}")


def remove_run_and_leave_heads(copy: Copy) -> None:
    take_chain(copy, f"run/{copy.run}")


def remove_every_chain(copy: Copy) -> None:
    for head in heads(copy):
        head["others"] |= {pk: sha256(part) for pk, part in head["workspaces"].items()}
        head["workspaces"] = {}
    copy.documents = [one for one in copy.documents if "chain" not in one and "event" not in one]


def hide_own_part(copy: Copy) -> None:
    """Show everything that head 2's seal covers except the run that it sealed."""
    head = heads(copy)[1]
    head["others"][demo()] = sha256(head["workspaces"].pop(demo()))
    take_chain(copy, f"run/{copy.run}")


def repeat_as_it_was(copy: Copy) -> None:
    lines = take_chain(copy, f"run/{copy.run}")
    copy.documents += [*lines, *deepcopy(lines)]


def cut_with_the_date(copy: Copy) -> None:
    """Cut everything newer than head 1 and backdate the copy."""
    keep = heads(copy)[0]
    moved = keep["workspaces"][demo()]["moved"]
    copy.documents[0]["at"] = keep["at"]
    kept, name, seq = [], "", 0
    for one in copy.documents:
        if "chain" in one:
            name, seq = one["chain"]["name"], 0
            if name in moved:
                one["chain"] |= {"count": len(moved[name]), "hash": moved[name][-1]}
        seq += "event" in one
        newer = "head" in one and one["head"]["number"] > 1
        inside = "chain" in one or "event" in one
        if not newer and not (inside and (name not in moved or seq > len(moved[name]))):
            kept.append(one)
    copy.documents = kept


def cut_and_tell_of_it(copy: Copy) -> None:
    """Cut and backdate, and add an event that a copy was taken then."""
    cut_with_the_date(copy)
    name, at = f"workspace/{demo()}", heads(copy)[0]["at"]
    lines = take_chain(copy, name)
    last = lines[-1]["event"]
    told = {**last, "seq": last["seq"] + 1, "kind": "audit.exported", "facts": {}, "at": at}
    told |= {"previous": last["hash"]}
    told["hash"] = sha256({part: told[part] for part in told if part != "hash"})
    lines[0]["chain"] |= {"count": told["seq"], "hash": told["hash"]}
    copy.documents += [*lines, {"event": told}]


def repeat(copy: Copy) -> None:
    lines = deepcopy(copy.documents)
    copy.documents = lines + forge_lines(copy)


def replace_run(copy: Copy) -> None:
    hide(copy)
    copy.documents += forge_lines(copy)


def invent_run(copy: Copy) -> None:
    """Add an invented run, dated a day back."""
    lines = forge_lines(Copy(copy.folder, deepcopy(copy.documents), copy.run))
    for line in lines[1:]:
        line["event"]["at"] = "2025" + line["event"]["at"][4:]
    rename(lines, "0" * 8 + copy.run[8:])
    copy.documents += lines


def rename(lines: list[dict[str, Any]], run: str) -> None:
    previous = ""
    for event in (line["event"] for line in lines[1:]):
        event |= {"run": run, "previous": previous}
        covered = {part: value for part, value in event.items() if part not in ("hash", "texts")}
        event["hash"] = previous = sha256(covered)
    lines[0]["chain"] |= {"name": f"run/{run}", "hash": previous}


def rename_run(copy: Copy) -> None:
    lines = take_chain(copy, f"run/{copy.run}")
    new = "0" * 8 + copy.run[8:]
    rename(lines, new)
    for head in heads(copy):
        moved = head["workspaces"][demo()]["moved"]
        if f"run/{copy.run}" in moved:
            del moved[f"run/{copy.run}"]
            moved[f"run/{new}"] = [line["event"]["hash"] for line in lines[1:]]
    copy.documents += lines


def shorten(copy: Copy) -> None:
    lines = take_chain(copy, f"run/{copy.run}")[:4]
    lines[0]["chain"] |= {"count": 3, "hash": lines[-1]["event"]["hash"]}
    copy.documents += lines


def say_it_is_archived(copy: Copy) -> None:
    """Leave a run's events out as if archived, though no event records an archive."""
    chain = take_chain(copy, f"run/{copy.run}")[0]["chain"]
    end = {part: chain[part] for part in ("count", "hash")}
    copy.documents.append({"chain": {**chain, "archived": {**end, "workspace": int(demo())}}})


def swap_heads(copy: Copy) -> None:
    found = [line for line, one in enumerate(copy.documents) if "head" in one]
    one, two = found[0], found[1]
    copy.documents[one], copy.documents[two] = copy.documents[two], copy.documents[one]


def swap_what_heads_say(copy: Copy) -> None:
    one, two, *_ = heads(copy)
    one["workspaces"], two["workspaces"] = two["workspaces"], one["workspaces"]


def head_twice(copy: Copy) -> None:
    copy.documents.insert(2, deepcopy(copy.documents[1]))


def heads_at_the_end(copy: Copy) -> None:
    found = [one for one in copy.documents if "head" in one]
    copy.documents = [one for one in copy.documents if "head" not in one] + found


def head_of_another_copy(copy: Copy) -> None:
    """Insert a genuine head from the other workspace's copy."""
    true = Head.objects.get(number=2).plain()
    assert true.workspaces
    head = heads(copy)[1]
    head["workspaces"] = {pk: part for pk, part in true.workspaces.items() if pk != demo()}
    head["others"] = {demo(): sha256(true.workspaces[demo()])}


def claim_the_other_workspace(copy: Copy) -> None:
    """Claim to be a copy of both workspaces, though the other's chains are missing."""
    copy.documents[0]["workspaces"][str(Workspace.objects.get(slug="eu").pk)] = "eu"


def claim_another_name(copy: Copy) -> None:
    copy.documents[0]["workspaces"][demo()] = "eu"


def move_a_head_in_time(copy: Copy) -> None:
    heads(copy)[1]["at"] = heads(copy)[0]["at"]


def number_a_head_by_true(copy: Copy) -> None:
    heads(copy)[0]["number"] = True


def invent_run_of_the_future(copy: Copy) -> None:
    lines = forge_lines(Copy(copy.folder, deepcopy(copy.documents), copy.run))
    for line in lines[1:]:
        line["event"]["at"] = "2999" + line["event"]["at"][4:]
    rename(lines, "0" * 8 + copy.run[8:])
    copy.documents += lines


def add_what_nothing_covers(copy: Copy) -> None:
    copy.events()[3]["decided_by"] = "ada"


def add_to_a_head(copy: Copy) -> None:
    heads(copy)[0]["note"] = "checked"


def add_to_a_part(copy: Copy) -> None:
    copy.documents[0]["workspaces_complete"] = True


ATTACKS = [
    *(invent_run_of_the_future, add_what_nothing_covers, add_to_a_head, add_to_a_part),
    *(say_it_is_archived, remove_run, remove_run_and_leave_heads, remove_every_chain),
    *(hide_own_part, repeat_as_it_was, cut_with_the_date, cut_and_tell_of_it, repeat, replace_run),
    *(invent_run, rename_run, shorten, swap_heads, swap_what_heads_say, head_twice),
    *(heads_at_the_end, head_of_another_copy, claim_the_other_workspace, claim_another_name),
    *(move_a_head_in_time, number_a_head_by_true),
]


@pytest.mark.both
def test_the_true_copy_holds_and_says_what_it_is(copy: Copy) -> None:
    code, said = copy.verify(*FULL)

    assert code == 0
    assert f"of workspace demo ({demo()}), taken at " in said
    assert "It ends with head 3 of 20" in said
    eu = Workspace.objects.get(slug="eu").pk
    assert f"Not in this copy: workspaces {eu}; their chains are not counted." in said
    assert "1 newer heads are kept elsewhere, up to 20" in said
    assert "In no seal" not in said  # the newer head kept elsewhere names them
    assert "binds" not in said  # every head does
    assert "not compared" not in said
    assert "NOT PROVED" not in said


@pytest.mark.proves("I34")
@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_copy_that_somebody_made_over_is_found(
    copy: Copy, attack: Callable[[Copy], None]
) -> None:
    attack(copy)
    copy.write()

    code, said = copy.verify(*FULL)

    assert code == 3, said
    assert copy.verify("--head", "heads.jsonl")[0] == 3
    if attack not in (cut_with_the_date, cut_and_tell_of_it):
        assert copy.verify("--keys", "keys")[0] == 3


def test_a_cut_is_told_where_no_heads_are_kept_elsewhere(copy: Copy) -> None:
    """The keys alone cannot find it; the verifier then names date and last head."""
    cut_and_tell_of_it(copy)
    copy.write()
    at = heads(copy)[0]["at"]

    code, said = copy.verify("--keys", "keys")

    assert code == 4
    assert f"It ends with head 1 of {at}." in said
    unproved = "NOT PROVED: that nothing is missing at its end: had everything after head 1 of "
    assert f"{unproved}{at} been left out, this check would say the same." in said


@pytest.mark.proves("I34")
def test_what_shares_a_head_with_the_event_of_the_copy_is_told(copy: Copy) -> None:
    """The fourth run, not yet sealed, is left out."""
    sealed = {chain for head in heads(copy) for chain in head["workspaces"][demo()]["moved"]}
    chains = [one["chain"] for one in copy.documents if "chain" in one]
    [fourth] = [chain for chain in chains if chain["name"] not in sealed]
    take_chain(copy, fourth["name"])
    copy.write()

    code, said = copy.verify(*FULL)

    assert code == 0
    assert f"NOT PROVED: that {fourth['count']} events of 1 chains are from after" in said


@pytest.mark.proves("I34")
def test_newest_other_head_follows_the_copys_last(copy: Copy) -> None:
    *_, newest = (copy.folder / "heads.jsonl").read_text().splitlines()
    (copy.folder / "heads.jsonl").write_text(f"{newest}\n")
    code, said = copy.verify("--head", "heads.jsonl")
    assert (code, "could forge what heads 1 to 3 seal" in said) == (4, True), said

    heads(copy)[-1]["seal"] = "0" * 64
    copy.write()

    code, said = copy.verify("--head", "heads.jsonl")
    assert (code, "head 3: head 4, kept elsewhere, follows another" in said) == (3, True), said


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("keys", ""),
        ("keys", "\n"),
        ("heads.jsonl", ""),
        ("heads.jsonl", "\n"),
        ("heads.jsonl", "x"),
    ],
)
def test_a_file_that_checks_nothing_is_refused(copy: Copy, file: str, content: str) -> None:
    (copy.folder / file).write_text(content)

    assert copy.verify(*FULL, refused=True)[0] == 2


@pytest.mark.both
def test_heads_of_version_1_hold_and_the_next_binds_their_chains(older_copy: Copy) -> None:
    code, said = older_copy.verify(*FULL)

    assert code == 0, said
    assert "Head 3 is the first that binds the set of chains." in said
    assert command("verify_audit").code == 0
    parts = [head.plain().workspaces or {} for head in Head.objects.filter(number__gt=2)]
    assert ["earlier" in part[demo()] for part in parts] == [True, False]


def hide_in_version_1(copy: Copy) -> None:
    take_chain(copy, f"run/{copy.run}")
    for head in heads(copy):
        if hashes := head.get("moved", {}).pop(f"run/{copy.run}", None):
            head["others"] = sorted([*head["others"], sha256([f"run/{copy.run}", hashes])])


def show_as_version_1(copy: Copy) -> None:
    """Drop the heads of version 2, as if the version had never changed."""
    copy.documents = [one for one in copy.documents if "workspaces" not in one.get("head", {})]
    hide_in_version_1(copy)


@pytest.mark.proves("I34")
@pytest.mark.parametrize("attack", [hide_in_version_1, show_as_version_1])
def test_a_chain_that_only_older_heads_sealed_cannot_be_left_out(
    older_copy: Copy, attack: Callable[[Copy], None]
) -> None:
    attack(older_copy)
    older_copy.write()

    code, said = older_copy.verify(*FULL)

    assert code == 3, said


def test_without_a_head_that_binds_it_is_said_that_nothing_binds(older_copy: Copy) -> None:
    show_as_version_1(older_copy)
    older_copy.write()

    code, said = older_copy.verify("--keys", "keys")

    assert code == 4
    assert "NOT PROVED: how many chains there are: no head binds them." in said


def note_beside_a_text(copy: Copy) -> None:
    event = next(event for event in copy.events() if event.get("texts"))
    next(iter(event["texts"].values()))["note"] = "The CFO approved this."


def control_characters(copy: Copy) -> None:
    heads(copy)[-1]["others"] = {"9.\nAll seals hold.\x1b[8m": "0" * 64}


def end_of_time(copy: Copy) -> None:
    copy.documents[0]["at"] = "9999-12-31T23:59:59.000000Z"


def beginning_of_time(copy: Copy) -> None:
    for head in heads(copy):
        head["at"] = "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "attack", [note_beside_a_text, control_characters, end_of_time, beginning_of_time]
)
@pytest.mark.parametrize("arguments", [FULL, ()])
def test_a_part_that_cannot_be_believed_is_refused(
    copy: Copy, attack: Callable[[Copy], None], arguments: tuple[str, ...]
) -> None:
    attack(copy)
    copy.write()

    code, said = copy.verify(*arguments)

    assert code == 3, said
    assert "\x1b" not in said


def test_last_head_needs_no_newline_and_torn_one_is_named(copy: Copy) -> None:
    file = copy.folder / "heads.jsonl"
    whole = file.read_bytes()

    file.write_bytes(whole.removesuffix(b"\n"))
    assert "1 newer heads are kept elsewhere" in copy.verify(*FULL)[1]

    file.write_bytes(whole[:-20])
    assert "is incomplete: it was left out" in copy.verify(*FULL)[1]
