"""What messages say after a word that they do not know."""

from __future__ import annotations

import pytest

from enrich.base.words import did_you_mean, suggest


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("acounts", ["orders", "accounts"], "did you mean 'accounts'?"),
        ("ACCOUNTS", ["orders", "accounts"], "did you mean 'accounts'?"),
        ("accounts", ["Accounts", "ACCOUNTS"], "did you mean 'Accounts'?"),
        ("x", ["orders", "accounts"], "it can be orders, accounts"),
        ("x", {"orders", "accounts"}, "it can be accounts, orders"),
        ("x", [], ""),
        ("x", ["a\nb"], "it can be a\\nb"),
    ],
)
def test_the_nearest_word_or_all_of_them(word: str, known: list[str], said: str) -> None:
    assert suggest(word, known) == said
    assert did_you_mean(word, known) == (f"; {said}" if said else "")


def test_something_else_may_be_said_when_nothing_is_near() -> None:
    assert suggest("x", ["orders"], "see `enrich ls`") == "see `enrich ls`"
    assert suggest("order", ["orders"], "see `enrich ls`") == "did you mean 'orders'?"
    assert did_you_mean("x", ["orders"], "") == ""
