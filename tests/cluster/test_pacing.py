from hypothesis import given
from hypothesis import strategies as st

from poolwarden.cluster.pacing import TokenBucket, backoff


class Clock:
    """A monotonic clock."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def test_burst_then_rate() -> None:
    """A burst goes out at once; after it each token of the future is awaited longer."""
    bucket = TokenBucket(4, 3, Clock())
    assert [bucket.take() for _ in range(6)] == [0, 0, 0, 0.25, 0.5, 0.75]


def test_tokens_come_back() -> None:
    """A quiet time refills the bucket, but no further than the burst."""
    clock = Clock()
    bucket = TokenBucket(4, 2, clock)
    bucket.take()
    bucket.take()
    clock.now += 1000
    assert [bucket.take() for _ in range(3)] == [0, 0, 0.25]
    clock.now += 0.75
    assert [bucket.take() for _ in range(3)] == [0, 0, 0.25]


@given(st.lists(st.floats(0, 2), min_size=1, max_size=60))
def test_rate_is_never_exceeded(gaps: list[float]) -> None:
    """Whatever the rhythm of the callers, no more go out in a time than its rate and the burst allow."""
    clock = Clock()
    bucket = TokenBucket(5, 4, clock)
    sent = []
    for gap in gaps:
        clock.now += gap
        sent.append(clock.now + bucket.take())
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= 4 + (sent[last] - sent[first]) * 5 + 1e-6


@given(st.integers(1, 5000))
def test_backoff(failures: int) -> None:
    """The longest pause doubles with each failure, up to the cap; jitter takes from none of it to all."""
    longest = min(8, 0.5 * 2 ** min(failures - 1, 10))
    pauses = [backoff(failures, base=0.5, cap=8) for _ in range(50)]
    assert all(0 <= pause <= longest for pause in pauses)
    assert max(pauses) - min(pauses) > longest / 4
