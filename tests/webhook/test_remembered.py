"""What is remembered, and what is not."""

from __future__ import annotations

from poolwarden.webhook.remembered import MOST_CHARACTERS, remembered


def test_short_texts_are_parsed_once_and_long_ones_each_time() -> None:
    """By all texts of the call together."""
    calls: list[int] = []

    @remembered
    def length(text: str, other: str) -> int:
        calls.append(len(text))
        return len(text + other)

    half = "x" * (MOST_CHARACTERS // 2)
    assert [length(half, half), length(half, half)] == [MOST_CHARACTERS] * 2
    assert len(calls) == 1
    assert [length(half + "x", half)] * 2 == [length(half + "x", half), MOST_CHARACTERS + 1]
    assert len(calls) == 3
