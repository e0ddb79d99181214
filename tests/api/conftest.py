"""Rulings of these tests are judged again."""

from tests.judged import pytest_runtest_call as pytest_runtest_call
