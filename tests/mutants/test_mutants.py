"""Every mutant is found: the tests notice when a guard is gone."""

import pytest

from tests.mutants.plant import MUTANTS, Mutant, lives
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(ON_POSTGRES, reason="found on SQLite already")]


@pytest.mark.parametrize("mutant", [pytest.param(one, id=one.name) for one in MUTANTS])
def test_a_broken_guard_is_noticed(mutant: Mutant) -> None:
    assert not lives(mutant)
