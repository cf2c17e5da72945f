"""One engine: when tokens come, who waits, and what a full KV cache does."""

import itertools
import random
from dataclasses import replace

import pytest

from scaler.sim.engine import Engine, EngineSpec
from scaler.sim.request import Outcome, Request

# A step takes 0.1 s plus 0.01 s for each decoding sequence; 1000 prompt tokens take a second.
SPEC = EngineSpec(slots=2, kv_capacity_tokens=1000, step_s=0.1, step_per_sequence_s=0.01, prefill_tokens_per_s=1000.0)


def engine(spec: EngineSpec = SPEC) -> Engine:
    return Engine(spec, name="pod", started_at=0.0)


def run(target: Engine, requests: list[Request], *, until: float = 1000.0) -> list[Outcome]:
    ended = []
    for request in requests:
        ended += target.advance(request.arrived_at)
        target.submit(request, request.arrived_at)
    return ended + target.advance(until)


def test_a_lone_request_gets_its_first_token_after_its_prefill_and_then_one_a_step() -> None:
    [outcome] = run(engine(), [Request(5.0, prompt_tokens=100, output_tokens=11)])

    assert outcome.completed
    assert outcome.ttft_s == pytest.approx(0.1 + 100 / 1000)
    assert outcome.e2e_s == pytest.approx(0.2 + 10 * 0.11)


def test_an_answer_of_one_token_ends_with_its_prefill() -> None:
    [outcome] = run(engine(), [Request(0.0, prompt_tokens=100, output_tokens=1)])

    assert outcome.ttft_s == outcome.e2e_s == pytest.approx(0.2)


def test_a_request_waits_for_a_slot_and_first_come_is_first_served() -> None:
    target = engine()
    requests = [Request(index / 100, prompt_tokens=10, output_tokens=20) for index in range(5)]

    ended = run(target, requests, until=0.5)

    assert ended == []
    assert (target.running, target.waiting) == (2, 3)
    ended = target.advance(1000.0)
    assert [outcome.request for outcome in ended] == requests
    ttft_s = [outcome.ttft_s or 0.0 for outcome in ended]
    assert max(ttft_s[:2]) < 0.5
    assert min(ttft_s[2:]) > 2
    assert target.stats.queue_time.count == 5
    assert target.stats.queue_time.cumulative()[0] == 2, "two did not queue, three did"


def test_a_long_prompt_is_prefilled_in_chunks_and_others_get_their_tokens_meanwhile() -> None:
    spec = EngineSpec(
        slots=2,
        kv_capacity_tokens=10_000,
        step_s=0.1,
        step_per_sequence_s=0.0,
        prefill_tokens_per_s=1000.0,
        max_batched_tokens=101,
    )
    target = engine(spec)
    run(target, [Request(0.0, 10, 50), Request(0.2, 1000, 2)], until=1.3)

    # The first has its first token at 0.11 s and one more by 0.21 s; then, steps with 100 prompt tokens take 0.2 s.
    assert target.stats.generation_tokens == 1 + 1 + 5
    assert target.stats.time_to_first_token.count == 1
    target.advance(1000.0)
    assert target.stats.time_to_first_token.count == 2
    assert target.stats.prompt_tokens == 1010
    assert target.stats.generation_tokens == 52


def test_more_sequences_at_once_make_each_token_slower() -> None:
    alone = run(engine(), [Request(0.0, 10, 100)])[0]
    together = run(engine(), [Request(0.0, 10, 100), Request(0.0, 10, 100)])[0]

    assert together.e2e_s == pytest.approx(alone.e2e_s + 0.01 + 99 * 0.01)


def test_a_full_kv_cache_preempts_the_newest_request_which_ends_later_but_complete() -> None:
    target = engine()
    old, new = Request(0.0, 400, 200), Request(0.1, 400, 200)

    ended = run(target, [old, new])

    assert [outcome.request for outcome in ended] == [old, new]
    assert [outcome.completed for outcome in ended] == [True, True]
    assert ended[0].preemptions == 0
    assert ended[1].preemptions == target.stats.preemptions >= 1
    assert target.stats.time_to_first_token.count == 2, "computing a prompt again is not a first token"
    assert target.stats.generation_tokens == 400
    assert target.stats.prompt_tokens == 800
    assert target.kv_usage_ratio == 0


def test_kv_usage_is_the_share_of_blocks_held() -> None:
    target = engine()
    run(target, [Request(0.0, 489, 100)], until=0.589 + 11 * 0.11 + 0.01)

    # 500 tokens take 32 blocks of 16, and 1000 tokens of cache have 62.
    assert target.kv_usage_ratio == 32 / 62


def test_tokens_in_the_cache_slow_every_step() -> None:
    [outcome] = run(engine(replace(SPEC, step_per_kv_token_s=0.0001)), [Request(0.0, 100, 11)])

    # The prefill reads the 100 tokens it writes; the ten steps that follow read 100, 101, .. 109.
    assert outcome.ttft_s == pytest.approx(0.1 + 100 / 1000 + 0.01)
    assert outcome.e2e_s == pytest.approx(0.21 + 10 * 0.11 + 0.0001 * (1000 + 45))


def test_a_request_longer_than_the_kv_cache_is_not_taken() -> None:
    request = Request(0.0, 900, 101)

    assert not engine().accepts(request)
    with pytest.raises(ValueError, match="does not fit into 1000 tokens"):
        engine().submit(request, 0.0)


def test_a_killed_engine_ends_all_requests_uncompleted() -> None:
    target = engine()
    run(target, [Request(0.0, 10, 100) for _ in range(3)], until=1.0)

    ended = target.abort(1.0)

    assert [(outcome.completed, outcome.ttft_s is None) for outcome in ended] == [
        (False, False),
        (False, False),
        (False, True),
    ]
    assert (target.in_flight, target.kv_usage_ratio) == (0, 0)


def test_an_engine_that_starts_later_serves_from_then_on() -> None:
    target = Engine(SPEC, name="pod", started_at=10.0)
    target.submit(Request(0.0, 100, 1), 0.0)

    assert target.advance(10.1) == []
    assert target.advance(10.3)[0].ttft_s == pytest.approx(10.2)


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"kv_capacity_tokens": 0}, {"step_s": 0.0}, {"prefill_tokens_per_s": -1.0}]
)
def test_an_impossible_engine_is_refused(wrong: dict[str, float]) -> None:
    fields = {"slots": 1, "kv_capacity_tokens": 1, "step_s": 1.0, "step_per_sequence_s": 0, "prefill_tokens_per_s": 1.0}

    with pytest.raises(ValueError, match="above zero"):
        EngineSpec(**(fields | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_random_traffic_is_served_completely_within_the_limits_however_often_one_looks(seed: int) -> None:
    source = random.Random(seed)
    spec = EngineSpec(
        slots=source.choice([1, 4, 16]),
        kv_capacity_tokens=640,
        step_s=0.02,
        step_per_sequence_s=source.choice([0.0, 0.001]),
        prefill_tokens_per_s=source.choice([500.0, 8000.0]),
        max_batched_tokens=source.choice([32, 2048]),
        step_per_kv_token_s=source.choice([0.0, 0.00002]),
        block_tokens=source.choice([1, 16, 128]),
    )
    times = itertools.accumulate(source.expovariate(3.0) for _ in range(150))
    requests = [Request(at, source.randint(1, 300), source.randint(1, 300)) for at in times]
    seldom, often = engine(spec), engine(spec)

    expected = run(seldom, requests, until=5000.0)
    seen, at = [], 0.0
    for request in requests:
        while at + 0.37 < request.arrived_at:
            at += 0.37
            seen += often.advance(at)
            assert often.running <= spec.slots
            assert 0 <= often.kv_usage_ratio <= 1
        seen += often.advance(request.arrived_at)
        often.submit(request, request.arrived_at)
    seen += often.advance(5000.0)

    # The moments at which one looks cut stretches of steps in other places: times differ by rounding at most.
    assert [replace(outcome, ended_at=0, ttft_s=0) for outcome in seen] == [
        replace(outcome, ended_at=0, ttft_s=0) for outcome in expected
    ]
    for one, other in zip(seen, expected, strict=True):
        assert (one.ended_at, one.ttft_s) == pytest.approx((other.ended_at, other.ttft_s), abs=1e-6)
    assert all(outcome.completed for outcome in seen)
    assert sorted(outcome.request.arrived_at for outcome in seen) == [request.arrived_at for request in requests]
    assert often.stats.generation_tokens == sum(request.output_tokens for request in requests)
    assert often.stats.prompt_tokens == sum(request.prompt_tokens for request in requests)
    assert often.stats.preemptions == sum(outcome.preemptions for outcome in seen)
    gaps = sum(request.output_tokens - 1 for request in requests)
    assert often.stats.inter_token_latency.count == gaps
    assert often.stats.inter_token_latency.total == pytest.approx(seldom.stats.inter_token_latency.total)
    assert (often.in_flight, often.kv_usage_ratio) == (0, 0)
