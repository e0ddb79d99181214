"""A wrong clock can be told from a forgery, and recording continues."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.management.exit_codes import REFUSED, refusal
from agents.models import Role, Run
from tests.audit.test_bundle import take_copy
from tests.audit.test_record import unseen
from tests.audit.test_sealed import faults, put_at_the_end, seal_another
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene
from tests.web.test_pages import client_of
from tests.web.verifying import verify_log

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

AHEAD = timedelta(hours=1)


@pytest.mark.proves("F36")
@pytest.mark.slow
@pytest.mark.breaks("I32", "I33")
def test_wrong_clocks_times_are_reported_then_accepted(
    scene: Scene, heads_file: Path, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = timezone.now
    with monkeypatch.context() as wrong:
        wrong.setattr("django.utils.timezone.now", lambda: right() + AHEAD)
        apart, code = refusal("work")
        early = seal_another(scene)
    later = seal_another(scene)

    told = command("verify_audit")

    assert (apart, code) == (
        "The clock of this host is 3600 s ahead of the database's: put the wrong one right first.",
        REFUSED,
    )
    assert told.code == 3
    of_the_future, too_old = (
        f"run {run.pk}: event 1: it is {why}: a clock was wrong, or its time was forged"
        for run, why in ((early, "in the future"), (later, "older than the head before its seal"))
    )
    assert of_the_future in told.out
    assert too_old in told.out
    assert "Everything but these times is valid" in told.out
    ada = client_of(scene.add("ada", Role.ADMIN))
    assert "Everything but these times is valid" in verify_log(ada)

    known = right() + timedelta(minutes=30), right() + timedelta(minutes=90)
    settings.OPSCONSOLE_WRONG_CLOCKS = [known]
    believed = command("verify_audit")

    assert believed.code == 0
    for text in (believed.out, verify_log(ada)):
        assert "were accepted: they are from a clock that was wrong." in text

    seal_another(scene)
    scene.launch(REFUND_500)  # not sealed
    copy = take_copy(tmp_path, heads_file, settings)
    code, said = copy.verify("--head", "heads.jsonl", "--keys", "keys")
    assert code == 4, said
    assert "sealed events say that they are newer than this copy: a clock was wrong." in said

    unseen(forge_row, early)
    forge_time(later, right() - timedelta(days=1))

    assert {name for name, _ in faults()} == {f"run {early.pk}", f"run {later.pk}"}
    assert "Everything but these times is valid" not in command("verify_audit").out


def forge_row(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(goal="Refund nothing.")


def forge_time(run: Run, at: datetime) -> None:
    run.refresh_from_db()
    put_at_the_end(run, at)
