import pytest

from scaler.capacity.buckets import attention_work, by_length


def test_attention_goes_with_the_square_of_the_length() -> None:
    assert (attention_work(64, 64), attention_work(1024, 64)) == (8192, 591872)


def test_requests_are_counted_by_the_bounds_of_their_lengths() -> None:
    requests = [(64, 64, True), (64, 64, False), (65, 64, True), (100_000, 70_000, False)]
    found = [(each.prompt_bound, each.output_bound, each.requests, each.met) for each in by_length(requests)]
    assert found == [(64, 64, 2, 1), (256, 64, 1, 1), (None, None, 1, 0)]


def test_a_few_long_requests_can_make_most_of_the_work() -> None:
    short, long = by_length([(64, 64, True)] * 72 + [(1024, 64, False)])
    assert short.attainment == 1
    assert long.attainment == 0
    assert long.work_share == pytest.approx(591872 / (591872 + 72 * 8192))
    assert short.work_share + long.work_share == pytest.approx(1)


def test_no_requests_make_no_buckets_and_no_tokens_make_no_work() -> None:
    assert by_length([]) == ()
    assert by_length([(0, 0, False)])[0].work_share == 0
