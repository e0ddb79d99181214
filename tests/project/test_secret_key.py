"""The secret key is made once and read by its owner alone."""

import stat
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from opsconsole.environment import keep_secret


@pytest.mark.proves("W20")
def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"

    key = keep_secret(path)

    assert keep_secret(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_processes_that_start_together_agree_on_the_key(tmp_path: Path) -> None:
    path, barrier, found = tmp_path / "secret-key", threading.Barrier(8), []

    def start() -> None:
        barrier.wait()
        found.append(keep_secret(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    keep_secret(path)
    path.chmod(0o644)

    with pytest.raises(ImproperlyConfigured, match="chmod 600"):
        keep_secret(path)


def test_a_key_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    path.touch(0o600)

    with pytest.raises(ImproperlyConfigured, match="not whole"):
        keep_secret(path)
