"""Documents name what exists, and code, promises and packages keep the rules of the repository."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps

from agents.sdk.desk import DESKS
from bench import page
from tests import proofs
from tests.processes import ROOT

SETTING = re.compile(r"`(O[A-Z]+_[A-Z_]+|EMAIL_[A-Z_]+|D[A-Z]+_[A-Z_]+)`")


def test_the_index_of_decisions_is_whole() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")

    lines = [line for line in index.splitlines() if line.startswith("- ")]

    assert lines == [
        f"- [{path.name[:4]}]({path.name}) {path.read_text().splitlines()[0].partition('. ')[2]}"
        for path in sorted(folder.glob("0*.md"))
    ]


def test_every_setting_is_on_its_page_and_in_the_example() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    source = "".join(path.read_text() for path in sorted((ROOT / "opsconsole").glob("*.py")))

    read = set(re.findall(r'"((?:OPSCONSOLE|OPENAI|EMAIL|DATABASE|DEFAULT)_[A-Z_]+)"', source))
    read -= {"OPENAI_MODEL_", "OPSCONSOLE_ENV_FILE"}  # a prefix of a role's; one for tests
    listed = set(SETTING.findall(page))

    assert read - listed == set()
    assert listed - read == {"OPENAI_MODEL_WORKER"}  # one of the roles, for all of them
    assert {name for name in read if name not in example} == set()


@pytest.mark.parametrize(
    ("script", "page"), [("settings-docs", "settings.md"), ("policy-docs", "policy-reference.md")]
)
def test_a_generated_page_is_what_its_script_writes(script: str, page: str) -> None:
    command = [sys.executable, f"scripts/{script}"]
    written = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert written.stdout == (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_benchmarks_have_the_stored_figures() -> None:
    figures, text = page.read(), page.PAGE.read_text(encoding="utf-8")

    assert page.render(text, figures) == text
    assert page.CHART.read_text(encoding="utf-8") == page.chart(figures)


def test_a_class_name_exists_once() -> None:
    places = [path for room in ("agents", "opsconsole") for path in (ROOT / room).rglob("*.py")]
    names = Counter(
        name
        for path in places
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if not {"migrations", "commands"} & set(path.parts)
    )

    assert [name for name, count in names.items() if count > 1] == []


def test_templates_are_in_lines_a_person_can_review() -> None:
    tags = (("{{", "}}"), ("{%", "%}"))  # which end in their line, or Django prints them
    wrong = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 160 or any(line.count(end) != line.count(tag) for tag, end in tags)
    ]

    assert wrong == []


GOOD = """# Operate

Restart the workers with `make demo` or `manage.py kill`. Set `OPSCONSOLE_PORT`.
[Above](#operate), [the readme](../README.md), `agents/urls.py`, `/runs/`, `launch_run`.

| setting | meaning |
|---|---|
| `OPSCONSOLE_PORT` | port of the pages |
"""
TREE = {
    "README.md": "# Readme\n",
    "Makefile": "demo:\n\techo\n",
    "opsconsole/settings.py": 'PORT = "OPSCONSOLE_PORT"\n',
    "agents/urls.py": 'path("runs/", launch_run)\n',
    "agents/management/commands/kill.py": "",
}
LONG = " ".join(["word"] * 33)
PLANTED = {
    "budget": f"{LONG[:100]}.\n\n" * 20,
    "sentence": f"{LONG}.",
    "paragraph": "Four words are here. " * 30,
    "item": "- " + "Four words are here. " * 12,
    "cell": f"| {'long words ' * 16} |",
    "heading": f"## {'long words ' * 6}",
    "caveats": "But not here.\n\n" * 13,
    "wording": "What was refused is recorded.",
    "history": "It is no longer shown.",
    "link": "[Gone](gone.md) and [a heading](../README.md#gone).",
    "command": "Run `manage.py vanish` now.",
    "target": "Run `make vanish` now.",
    "setting": "Set `OPSCONSOLE_GONE`.",
    "test": "See `project/test_gone.py::test_gone`.",
    "path": "See `agents/gone.py`.",
    "address": "Open `/gone/`.",
    "name": "Call `vanish_now`.",
}


def check(root: Path, page: str) -> tuple[int, list[str]]:
    """Check a tree with this page. Return the exit code, and the kinds of faults."""
    for name, text in {**TREE, "docs/page.md": page}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "check-docs"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, [line.split(": ")[1] for line in done.stdout.splitlines()]


def test_a_good_page_has_no_fault(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == (0, [])


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found(tmp_path: Path, kind: str) -> None:
    code, kinds = check(tmp_path, f"{GOOD}\n{PLANTED[kind]}\n")

    assert (code, set(kinds)) == (1, {kind})


@pytest.mark.parametrize(
    ("kind", "mark"), [("sentence", "generated"), ("wording", "quoted"), ("name", "quoted")]
)
def test_marked_parts_are_exempt(tmp_path: Path, kind: str, mark: str) -> None:
    part = f"<!-- {mark} -->\n\n{PLANTED[kind]}\n\n<!-- end -->\n"

    assert check(tmp_path, f"{GOOD}\n{part}") == (0, [])


ANEW = "wording: “made anew”: 'again', 'regenerated', 'rebuilt'"
LONG_NAME = f"test_{'a' * 56}"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "templates/page.html",
            "<p>{% if a %}It is\n<b>made</b> anew.{% endif %}</p>",
            f"1: {ANEW}",
        ),
        ("agents/page.py", 'raise Refused(\n    f"It is made anew {once}"\n)\n', f"2: {ANEW}"),
        ("agents/page.py", '"""A row.\n\nIt is\nmade anew."""\n', f"3: {ANEW}"),
        ("agents/page.py", "x = 1\n# It is made\n# anew.\n", f"2: {ANEW}"),
        ("tests/test_a.py", f"def {LONG_NAME}(): ...", f"1: test: {LONG_NAME} is too long"),
    ],
)
def test_idioms_on_screens_are_found(tmp_path: Path, name: str, text: str, told: str) -> None:
    check(tmp_path, GOOD)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "scripts" / "check-docs"), str(tmp_path), "--screens"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (1, f"{name}:{told}\n")


# What is left out: desks, what is stored and sealed under names of before, third-party code.
PLACES = ("agents", "templates", "static")
BUT = ("agents/desks/", "agents/migrations/", "static/vendor/")
ALLOWED = [ROOT / f"agents/core/{name}.py" for name in ("compat_0_2",)]
ALLOWED.append(ROOT / "agents/sdk/amounts.py")  # lists the words that people put before numbers
KINDS = {".py", ".html", ".js", ".css", ".md", ".json"}
# The business of a desk, and a currency where none is given.
WORD = re.compile(
    r'refund|charge|customer|\bbank\b|FIRST_DESK|currency\b.{0,20}= "[A-Z]{3}"', re.IGNORECASE
)


def shared_files() -> Iterator[Path]:
    """Yield the files that every desk uses."""
    for path in (path for place in PLACES for path in (ROOT / place).rglob("*")):
        is_shared = not path.relative_to(ROOT).as_posix().startswith(BUT) and path not in ALLOWED
        if is_shared and path.suffix in KINDS and "__pycache__" not in path.parts:
            yield path


def test_what_every_desk_uses_names_the_business_of_none() -> None:
    lines = {
        f"{path.relative_to(ROOT).as_posix()}:{number}: {line.strip()}"
        for path in shared_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if WORD.search(line)
    }

    assert lines == set()
    assert {path.relative_to(ROOT).parts[1] for path in shared_files()} >= {"engine", "shell"}


def test_no_column_defaults_to_a_desk() -> None:
    models = apps.get_app_config("agents").get_models()
    fields = [field for model in models for field in model._meta.concrete_fields]

    assert DESKS
    assert [f for f in fields if {str(f.default), str(f.db_default)} & DESKS.keys()] == []


def test_no_row_of_the_console_refers_to_one_of_a_desk() -> None:
    models = apps.get_app_config("agents").get_models(include_auto_created=True)
    wrong = [
        f"{model.__name__}.{field.name}"
        for model in models
        for field in model._meta.concrete_fields
        if field.related_model and field.related_model._meta.app_label not in ("agents", "auth")
    ]

    assert wrong == []


_PIN = re.compile(r"[a-z0-9][a-z0-9._-]*==[^\s;]+(?: ; .+)?")


@pytest.mark.proves("W23")
@pytest.mark.parametrize(
    "name",
    [
        *("requirements.lock", "requirements-mcp.lock", "requirements-dev.lock"),
        *("requirements-otel.lock", "requirements-permits.lock"),
        "clients/python/requirements-sdks.lock",
    ],
)
def test_every_package_is_one_version_with_its_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    for line in lines:
        package, *hashes = re.split(r"\s+--hash=", line)
        assert _PIN.fullmatch(package.strip()), line
        assert hashes, f"{package} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), package
    assert lines


ONE = '[money]\ntitle = "Money"\nI1 = {entry}\n'


def test_every_promise_is_tested() -> None:
    assert proofs.faults(proofs.promises(), proofs.marked_tests()) == []


def test_the_page_of_promises_is_up_to_date() -> None:
    said = "python -m tests.proofs writes it"

    assert proofs.PAGE.read_text(encoding="utf-8") == proofs.page(), said


@pytest.mark.parametrize(
    ("entry", "tests", "fault"),
    [
        ('"One effect."', (), "I1: 0 tests are marked with it"),
        ('{ absent = "There is none." }', ("tests/a.py::b",), "I1: 1 tests are marked with it"),
        (f'"{"x" * 161}"', ("tests/a.py::b",), "I1: 161 characters of 160"),
        ('"One effect."\nI1000 = "More."', ("tests/a.py::b",), "I1000: no such promise"),
        ('"One effect."', ("tests/a.py::b",), "I2: it must be there once"),
    ],
)
def test_a_faulty_promise_is_named(entry: str, tests: tuple[str, ...], fault: str) -> None:
    found = proofs.read_promises(ONE.format(entry=entry), {"I1": tests})

    assert fault in proofs.faults(found, [])


def test_a_mark_without_a_promise_is_named() -> None:
    assert "I999: no such promise" in proofs.faults(proofs.promises(), ["I999"])
