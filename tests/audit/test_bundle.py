"""A copy of the record can be verified by someone who has nothing else of ours."""

import asyncio
import errno
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import signals
from django.core.asgi import get_asgi_application
from django.test import AsyncClient
from django.urls import reverse

from agents.audit import copies
from agents.core.json_forms import canonical, sha256
from agents.models import Event, Role, Run
from opsconsole.intake import Intake, Message
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene
from tests.live.watching import cookie_of
from tests.processes import LONGEST
from tests.web.test_pages import client_of, stranger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

VERIFIER = Path(__file__).parents[2] / "scripts" / "verify_bundle.py"


@dataclass
class Copy:
    """A copy of the record in a clean folder, with an intruder's ways to change it."""

    folder: Path
    documents: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""

    def read(self) -> None:
        lines = (self.folder / "record.jsonl").read_text().splitlines()
        self.documents = [json.loads(line) for line in lines[:-1]]

    def write(self) -> None:
        """Write the documents with a matching last line, which takes no key."""
        lines = [canonical(document) + "\n" for document in self.documents]
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        end = {"end": {"lines": len(lines), "sha256": digest}}
        (self.folder / "record.jsonl").write_text("".join([*lines, canonical(end) + "\n"]))

    def chain(self) -> dict[str, Any]:
        return next(
            document["chain"]
            for document in self.documents
            if document.get("chain", {}).get("name") == f"run/{self.run}"
        )

    def events(self) -> list[dict[str, Any]]:
        found = [document["event"] for document in self.documents if "event" in document]
        return [event for event in found if event["run"] == self.run]

    def at(self, seq: int) -> int:
        """Return the line of one of the run's events."""
        wanted = self.events()[seq - 1]
        return next(line for line, one in enumerate(self.documents) if one.get("event") is wanted)

    def hash_again(self) -> None:
        """Renumber and rehash the run's chain, and update the line that begins it."""
        previous, chain = "", self.chain()
        for seq, event in enumerate(self.events(), start=1):
            event |= {"seq": seq, "previous": previous}
            covered = {
                name: value for name, value in event.items() if name not in ("hash", "texts")
            }
            event["hash"] = previous = sha256(covered)
            chain |= {"count": seq, "hash": previous}

    def verify(self, *arguments: str, refused: bool = False) -> tuple[int, str]:
        """Run the verifier without packages, environment or checkout, as a stranger would."""
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "verify_bundle.py", "record.jsonl", *arguments],
            cwd=self.folder,
            env={},
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert bool(ended.stderr) is refused
        return ended.returncode, ended.stdout


@pytest.fixture
def copy(run: Run, heads_file: Path, settings: Any, tmp_path: Path) -> Copy:
    return take_copy(tmp_path, heads_file, settings, of=run)


def take_copy(place: Path, heads_file: Path, settings: Any, of: Run | None = None) -> Copy:
    """Export the record with verifier, heads and keys into a clean folder."""
    folder = place / "clean"
    folder.mkdir()
    shutil.copy(VERIFIER, folder)
    shutil.copy(heads_file, folder / "heads.jsonl")
    (folder / "keys").write_text(f"{settings.OPSCONSOLE_AUDIT_KEY}\n")
    assert command("export_audit", "--output", str(folder / "record.jsonl")).code == 0
    found = Copy(folder, run=str(of.pk) if of else "")
    found.read()
    return found


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_a_copy_that_nobody_touched_holds(copy: Copy, heads_file: Path, mark: bytes) -> None:
    """Also where an editor put a mark before the keys or the heads.

    Heads that are older than the copy do not tell whether its end is whole.
    """
    events = Event.objects.count()
    older = copy.verify("--head", "heads.jsonl", "--keys", "keys")
    assert older[0] == 4
    assert "NOT PROVED: that nothing is missing at its end" in older[1]
    assert command("seal_audit").code == 0
    shutil.copy(heads_file, copy.folder / "heads.jsonl")
    for name in ("heads.jsonl", "keys"):
        (copy.folder / name).write_bytes(mark + (copy.folder / name).read_bytes())

    code, said = copy.verify("--head", "heads.jsonl", "--keys", "keys")

    assert (code, said.splitlines()[0]) == (0, f"{events} events in 2 chains hold, heads: 1.")


def edit(copy: Copy) -> None:
    copy.events()[2]["actor"] = "somebody else"


def delete(copy: Copy) -> None:
    del copy.documents[copy.at(3)]


def insert(copy: Copy) -> None:
    copy.documents.insert(copy.at(3), {"event": dict(copy.events()[1])})


def swap(copy: Copy) -> None:
    third, fourth = copy.at(3), copy.at(4)
    found = copy.documents
    found[third], found[fourth] = found[fourth], found[third]


def cut(copy: Copy) -> None:
    for _ in range(len(copy.events()) - 2):
        del copy.documents[copy.at(3)]


@pytest.mark.proves("I33")
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("tamper", [edit, delete, insert, swap, cut])
def test_a_changed_copy_is_found_also_when_it_was_hashed_anew(
    copy: Copy, tamper: Callable[[Copy], None], anew: bool
) -> None:
    tamper(copy)
    if anew:
        copy.hash_again()
    copy.write()

    code, said = copy.verify()

    assert code == 3
    assert said.startswith(f"run/{copy.run}: event 3: ")


def forge(copy: Copy) -> None:
    """Rewrite the run and its part of the head; only the seal would take the key."""
    edit(copy)
    copy.hash_again()
    head = next(one["head"] for one in copy.documents if "head" in one)
    [part] = head["workspaces"].values()
    part["moved"][f"run/{copy.run}"] = [event["hash"] for event in copy.events()]
    copy.write()


@pytest.mark.parametrize("by", [("--keys", "keys"), ("--head", "heads.jsonl")])
def test_forged_copy_is_found_by_key_or_other_heads(copy: Copy, by: tuple[str, str]) -> None:
    forge(copy)

    code, said = copy.verify(*by)

    assert code == 3
    assert said.startswith("head 1: ")


@pytest.mark.proves("I34")
def test_older_copy_is_found_by_other_heads(copy: Copy) -> None:
    """Head 1 goes together with all it sealed of the run; nothing in the copy shows that."""
    older = copy.documents[: copy.at(1) - 1]
    copy.documents = [one for one in older if "head" not in one]
    copy.write()

    code, said = copy.verify("--head", "heads.jsonl")

    assert copy.verify()[0] == 4
    assert code == 3
    assert said.startswith(f"run/{copy.run}: event 1: head 1, kept elsewhere, sealed")


@pytest.mark.parametrize("lost", [2, 100, 1000])
def test_a_download_that_broke_off_in_a_line_is_found(copy: Copy, lost: int) -> None:
    whole = (copy.folder / "record.jsonl").read_bytes()
    (copy.folder / "record.jsonl").write_bytes(whole[:-lost])

    assert copy.verify()[0] == 3


def test_a_download_that_broke_off_between_lines_is_found(copy: Copy) -> None:
    lines = (copy.folder / "record.jsonl").read_bytes().splitlines(keepends=True)
    (copy.folder / "record.jsonl").write_bytes(b"".join(lines[:-1]))

    assert copy.verify() == (3, "it breaks off: the last line is missing\n")


@pytest.mark.parametrize(
    "spelled",
    [
        lambda line: line.replace(b'"actor":', b'"actor":"ada","actor":', 1),
        lambda line: line.decode().encode("utf-16-be"),
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: b"[]\n",
        lambda line: b"nothing\n",
    ],
    ids=["a name twice", "utf-16", "a mark before it", "a list", "nothing"],
)
def test_a_line_that_can_be_read_in_two_ways_is_refused(
    copy: Copy, spelled: Callable[[bytes], bytes]
) -> None:
    """Even if its content is true and the last line matches."""
    *lines, last = (copy.folder / "record.jsonl").read_bytes().splitlines(keepends=True)
    lines[copy.at(2)] = spelled(lines[copy.at(2)])
    digest = hashlib.sha256(b"".join(lines)).hexdigest().encode()
    last = re.sub(rb"[0-9a-f]{64}", digest, last)
    (copy.folder / "record.jsonl").write_bytes(b"".join([*lines, last]))

    code, said = copy.verify()

    assert (code, said.startswith(f"line {copy.at(2) + 1}: ")) == (3, True), said


def test_the_copy_of_a_workspace_tells_nothing_of_another(
    run: Run, copy: Copy, heads_file: Path
) -> None:
    admin = client_of(stranger())
    assert command("seal_audit").code == 0

    answered = admin.post(reverse("bundle"))
    text = answered.getvalue().decode()

    assert str(run.pk) not in text
    assert (
        Event.objects.filter(run=run).order_by("-seq").values_list("hash", flat=True)[0] not in text
    )
    (copy.folder / "record.jsonl").write_text(text)
    shutil.copy(heads_file, copy.folder / "heads.jsonl")
    code, said = copy.verify("--head", "heads.jsonl", "--keys", "keys")
    assert (code, said.splitlines()[0].split(" events")[1]) == (4, " in 1 chains hold, heads: 2.")


def test_taking_a_copy_is_on_record_in_the_copy(scene: Scene, run: Run) -> None:
    auditor = scene.add("auditor", Role.AUDITOR)

    answered = client_of(auditor).post(reverse("bundle"))
    lines = answered.getvalue().decode().splitlines()

    taken = [json.loads(line)["event"] for line in lines if '"kind":"audit.exported"' in line]
    assert [(event["actor"], event["facts"]) for event in taken] == [
        ("auditor", {"bundle": "opsconsole-record/2"})
    ]
    assert answered["Content-Disposition"].endswith('.jsonl"')


def test_an_asgi_server_gets_the_copy_in_parts(scene: Scene, run: Run) -> None:
    auditor = scene.add("auditor", Role.AUDITOR)
    client = AsyncClient()
    client.force_login(auditor)

    async def take_bundle() -> list[bytes]:
        answered: Any = await client.post(reverse("bundle"))
        return [part async for part in answered.streaming_content]

    parts = async_to_sync(take_bundle)()

    lines = b"".join(parts).splitlines()
    assert len(lines) > Event.objects.count()
    assert "end" in json.loads(lines[-1])


@pytest.mark.proves("W16")
def test_gone_reader_frees_thread_and_connection(
    scene: Scene, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stays open, with the server's buffer for it full."""
    monkeypatch.setattr(copies, "PART", 1_000)
    auditor, sent, ended = scene.add("auditor", Role.AUDITOR), list[bytes](), list[str]()
    token, body = "t" * 32, [{"type": "http.request", "body": b""}]
    cookie = f"{cookie_of(auditor)}; csrftoken={token}"
    headers = {"host": "127.0.0.1", "cookie": cookie, "x-csrftoken": token}
    scope: Message = {"type": "http", "method": "POST", "path": reverse("bundle")}
    scope["raw_path"] = scope["query_string"] = b""
    scope["headers"] = [(name.encode(), text.encode()) for name, text in headers.items()]

    async def receive() -> Message:
        return body.pop() if body else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if len(sent) > 2:  # after the first line and a part
            await asyncio.Future()

    def finish(**given: Any) -> None:  # which gives the connection back
        ended.append("finished")

    async def ask() -> None:
        pages = Intake(get_asgi_application(), most=1_000, seconds=30, part_seconds=0.2)
        async with asyncio.timeout(LONGEST):
            await pages(scope, receive, send)

    signals.request_finished.connect(finish)
    try:
        async_to_sync(ask)()
    finally:
        signals.request_finished.disconnect(finish)

    assert (len(sent), sent[1][:9], len(ended)) == (3, b'{"at":"20', 1)


def test_a_copy_is_not_written_over_another(copy: Copy) -> None:
    before = (copy.folder / "record.jsonl").read_bytes()

    ended = command("export_audit", "--output", str(copy.folder / "record.jsonl"))

    assert ended.code == 2
    assert (copy.folder / "record.jsonl").read_bytes() == before
    assert (copy.folder / "record.jsonl").stat().st_mode & 0o777 == 0o600


def test_copy_on_a_full_disk_fails_without_a_file(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Iterator[str]:
        yield "a first line\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copies, "lines", full)
    place = copy.folder / "another.jsonl"

    ended = command("export_audit", "--output", str(place))

    assert (ended.code, "No space left on device" in ended.err) == (3, True)
    assert not place.exists()
