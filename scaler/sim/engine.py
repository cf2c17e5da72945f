"""One vLLM engine: continuous batching over a KV cache, in virtual time.

Theory. The engine works in steps. A step gives one token to every sequence that is decoding, and works off up to a
budget of prompt tokens of sequences that are not there yet (chunked prefill). Between two changes of the batch steps
differ only in that the KV cache grows evenly, so a whole stretch of them is passed in one go: the cost of a simulation
goes with the number of requests, not with that of tokens or steps.

State. A plan stands for the step with prompts in it, or the stretch of decode steps, that is being worked on; ``due``
is its end. What a step does counts at its end, and a request that arrives during a step is looked at when the step
ends. How often, and how far at a time, the engine is advanced makes no difference to what happens.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from scaler.policy.buckets import INTER_TOKEN_BOUNDS_S, REQUEST_BOUNDS_S, TTFT_BOUNDS_S
from scaler.sim.histogram import Histogram
from scaler.sim.request import Outcome, Request

# A quotient such as 2.9999999999 steps is 3 with rounding error.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What one engine can do.

    A step takes step_s + step_per_sequence_s * decoding sequences + step_per_kv_token_s * tokens in the KV cache
    + prompt tokens / prefill_tokens_per_s: with 20 ms, 1 ms, 1 us and 1000/s, a step that decodes 10 sequences of 500
    tokens each and prefills 100 tokens takes 20 + 10 + 5 + 100 = 135 ms.
    """

    slots: int
    """Most sequences in the batch (vLLM's max-num-seqs)."""
    kv_capacity_tokens: int
    step_s: float
    """Time of a step on its own, in seconds."""
    step_per_sequence_s: float
    """What each decoding sequence adds to a step, in seconds."""
    prefill_tokens_per_s: float
    max_batched_tokens: int = 2048
    """Tokens in one step, decoded and prefilled ones together."""
    step_per_kv_token_s: float = 0.0
    """What each token in the KV cache adds to a step, since attention reads it, in seconds."""
    block_tokens: int = 16
    """The KV cache is given out in blocks of so many tokens (vLLM's block-size)."""

    def __post_init__(self) -> None:
        counts = (self.slots, self.kv_blocks, self.block_tokens, self.max_batched_tokens - self.slots)
        if min(*counts, self.step_s, self.prefill_tokens_per_s) <= 0 or min(self.step_per_sequence_s, 0.0) < 0:
            raise ValueError(f"sizes, times and rates of an engine are above zero, and a step holds all slots: {self}")
        if self.step_per_kv_token_s < 0:
            raise ValueError(f"a token in the KV cache adds zero or more to a step: {self}")

    @property
    def kv_blocks(self) -> int:
        """Blocks in the KV cache."""
        return self.kv_capacity_tokens // max(1, self.block_tokens)

    def holds(self, request: Request) -> bool:
        """Tell whether a request fits into the KV cache at all; vLLM refuses longer ones."""
        return request.total_tokens <= self.kv_blocks * self.block_tokens


@dataclass(slots=True)
class EngineStats:
    """What the engine's /metrics page accumulates since its start."""

    time_to_first_token: Histogram = field(default_factory=lambda: Histogram(TTFT_BOUNDS_S))
    inter_token_latency: Histogram = field(default_factory=lambda: Histogram(INTER_TOKEN_BOUNDS_S))
    e2e_latency: Histogram = field(default_factory=lambda: Histogram(REQUEST_BOUNDS_S))
    queue_time: Histogram = field(default_factory=lambda: Histogram(REQUEST_BOUNDS_S))
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    completed: int = 0


@dataclass(slots=True, eq=False)
class _Sequence:
    """A request inside the engine."""

    request: Request
    queued_at: float
    prefill_left: int
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float = 0.0
    """When it got its newest token, once it has been preempted."""
    generated: int = 0
    """Tokens so far, while it is not decoding."""
    preemptions: int = 0
    done_at_step: int = 0
    """The decode step, counted since the engine's start, that gives the last token."""


class Engine:
    """One engine.

    Args:
        spec: What it can do.
        name: The pod it runs in, for its outcomes.
        started_at: When it begins to serve.
    """

    def __init__(self, spec: EngineSpec, *, name: str, started_at: float) -> None:
        self.spec = spec
        self.name = name
        self.started_at = started_at
        self.last_ended_at = started_at
        """When the newest of its requests ended."""
        self.due = math.inf
        """When its batch may change next: no request ends before."""
        self.stats = EngineStats()
        self._waiting: deque[_Sequence] = deque()
        # In the order of their admission, the newest last.
        self._running: dict[_Sequence, None] = {}
        self._prefilling: dict[_Sequence, None] = {}
        self._by_end: list[tuple[int, int, _Sequence]] = []
        self._kv_tokens = 0
        self._capacity = spec.kv_blocks * spec.block_tokens
        self._planned = False
        self._chunks: list[tuple[_Sequence, int]] = []
        # now = _epoch + _steps * _step_s + _growth_s * (0 + 1 + .. + (_steps - 1)), exact however a stretch is cut.
        self._epoch = started_at
        self._steps = 0
        self._limit = 0
        self._step_s = spec.step_s
        self._growth_s = 0.0
        self.steps = 0
        """Steps so far."""
        self._admissions = 0
        self._ended: list[Outcome] = []

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Requests that were taken in and have not ended."""
        return len(self._running) + len(self._waiting)

    @property
    def kv_usage_ratio(self) -> float:
        """Share of the KV cache's blocks in use, 0 to 1."""
        return self._blocks(0) / self.spec.kv_blocks

    @property
    def awaiting_first_token(self) -> list[float]:
        """Arrival times, at the fleet, of the requests that have no token yet."""
        everyone = (*self._running, *self._waiting)
        return [sequence.request.arrived_at for sequence in everyone if sequence.first_token_at is None]

    def accepts(self, request: Request) -> bool:
        """Tell whether a request fits into the KV cache at all."""
        return self.spec.holds(request)

    def submit(self, request: Request, at: float) -> None:
        """Queue a request; the engine must have been advanced to ``at``, or not be due before it.

        Raises:
            ValueError: The request can never fit; see ``accepts``.
        """
        if not self.accepts(request):
            raise ValueError(f"{request} does not fit into {self.spec.kv_capacity_tokens} tokens of KV cache")
        self._waiting.append(_Sequence(request, queued_at=at, prefill_left=request.prompt_tokens))
        if not self._running:
            self._epoch, self._steps = max(self._now, at), 0
            self._planned, self.due = False, self._epoch
        elif len(self._waiting) > 1 or len(self._running) == self.spec.slots:
            pass
        elif self._now >= at:
            # Requests of one moment begin together.
            self._planned, self.due = False, self._now
        elif not self._chunks:
            # It is looked at when the step in which it arrived has ended.
            arrival = math.ceil(self._steps_in(at - self._epoch) - _ROUNDING)
            self._limit = min(self._limit, max(self._steps, arrival))
            self.due = self._time_of(self._limit)

    def advance(self, to: float) -> list[Outcome]:
        """Work until ``to`` and return the requests that ended, in the order of their ends."""
        while self.due <= to:
            if self._planned and self._chunks:
                self._mixed_step()
            elif self._planned:
                self._decode(self._limit - self._steps)
            self._finish()
            self._plan()
        if self._running and not self._chunks:
            self._decode(min(self._limit, math.floor(self._steps_in(to - self._epoch) + _ROUNDING)) - self._steps)
        ended, self._ended = self._ended, []
        return ended

    def abort(self, at: float) -> list[Outcome]:
        """Cut off every request, as when the pod is killed."""
        sequences = (*self._running, *self._waiting)
        self.last_ended_at = at
        self._running, self._prefilling, self._by_end, self._chunks, self._kv_tokens = {}, {}, [], [], 0
        self._waiting.clear()
        self.due = math.inf
        return [self._outcome(sequence, at, completed=False) for sequence in sequences]

    @property
    def _now(self) -> float:
        return self._time_of(self._steps)

    def _time_of(self, steps: int) -> float:
        """Return when so many steps of the stretch are done."""
        return self._epoch + steps * self._step_s + self._growth_s * (steps * (steps - 1) / 2)

    def _steps_in(self, duration_s: float) -> float:
        """Return how many steps of the stretch a time from its start holds; the inverse of ``_time_of``."""
        linear = self._step_s - self._growth_s / 2
        return 2 * duration_s / (linear + math.sqrt(max(0.0, linear**2 + 2 * self._growth_s * duration_s)))

    def _plan(self) -> None:
        """Make up the batch, and say when it may change again."""
        self._planned = True
        now = self._now
        if not self._make_room(now):
            self._admit(now)
        decoding = len(self._running) - len(self._prefilling)
        spec = self.spec
        self._epoch, self._steps, self._limit, self._chunks = now, 0, 0, []
        self._step_s = spec.step_s + spec.step_per_sequence_s * decoding + spec.step_per_kv_token_s * self._kv_tokens
        self._growth_s = spec.step_per_kv_token_s * decoding
        if self._prefilling:
            self._chunks = self._prompt_chunks(spec.max_batched_tokens - decoding)
            self._step_s += sum(chunk for _, chunk in self._chunks) / spec.prefill_tokens_per_s
            self.due = now + self._step_s
        elif self._running:
            self._limit = self._room_for(self._next_end() - self.steps)
            self.due = self._time_of(self._limit)
        else:
            self.due = math.inf

    def _admit(self, now: float) -> None:
        """Move requests from the queue into the batch, first come first served, while slots and KV cache allow."""
        while self._waiting and len(self._running) < self.spec.slots:
            sequence = self._waiting[0]
            tokens = sequence.request.prompt_tokens + sequence.generated
            if not self._fits(tokens):
                return
            self._waiting.popleft()
            sequence.prefill_left = tokens
            if sequence.scheduled_at is None:
                sequence.scheduled_at = now
            self._kv_tokens += tokens
            self._running[sequence] = None
            self._prefilling[sequence] = None

    def _prompt_chunks(self, budget: int) -> list[tuple[_Sequence, int]]:
        chunks = []
        for sequence in self._prefilling:
            if budget <= 0:
                break
            chunk = min(sequence.prefill_left, budget)
            budget -= chunk
            chunks.append((sequence, chunk))
        return chunks

    def _make_room(self, now: float) -> bool:
        """Preempt, newest first, until each decoding sequence has room for one more token; tell whether one had to."""
        preempted = False
        while not self._holds_after(1):
            sequence, _ = self._running.popitem()
            if sequence.prefill_left:
                del self._prefilling[sequence]
                self._kv_tokens -= sequence.request.prompt_tokens + sequence.generated
            else:
                sequence.generated = sequence.request.output_tokens - (sequence.done_at_step - self.steps)
                self._kv_tokens -= sequence.request.prompt_tokens + sequence.generated - 1
                sequence.last_token_at = now
            sequence.preemptions += 1
            self.stats.preemptions += 1
            self._waiting.appendleft(sequence)
            preempted = True
        return preempted

    def _holds_after(self, steps: int, new_blocks: int = 0) -> bool:
        """Tell whether the KV cache holds the batch after some steps, and some blocks more."""
        size = self.spec.block_tokens
        decoding = len(self._running) - len(self._prefilling)
        # No sequence leaves more than its last block partly empty. Mostly that answers it without looking at each.
        if self._kv_tokens + decoding * steps + len(self._running) * (size - 1) + new_blocks * size <= self._capacity:
            return True
        return self._blocks(steps) + new_blocks <= self.spec.kv_blocks

    def _fits(self, tokens: int) -> bool:
        """Tell whether a sequence of so many tokens can join, with room for the next step of all others."""
        return self._holds_after(1, -(-tokens // self.spec.block_tokens))

    def _blocks(self, steps: int) -> int:
        """Count the blocks in use after some steps."""
        size = self.spec.block_tokens
        total = 0
        for sequence in self._running:
            if sequence.prefill_left:
                tokens = sequence.request.prompt_tokens + sequence.generated
            else:
                # The newest token is not in the cache before the step that it goes into.
                tokens = sequence.request.total_tokens - 1 - (sequence.done_at_step - self.steps) + steps
            total += -(-tokens // size)
        return total

    def _room_for(self, steps: int) -> int:
        """Return how many of the next decode steps the KV cache has room for, at least one."""
        if self._holds_after(steps):
            return steps
        low, high = 1, steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds_after(middle) else (low, middle)
        return low

    def _next_end(self) -> int:
        """Return the decode step at which the next sequence is done."""
        while True:
            step, _, sequence = self._by_end[0]
            if sequence in self._running and not sequence.prefill_left and sequence.done_at_step == step:
                return step
            heapq.heappop(self._by_end)

    def _mixed_step(self) -> None:
        """Do the one step with prompt tokens in it."""
        end, decoding = self.due, len(self._running) - len(self._prefilling)
        self._give_tokens(decoding, 1)
        self._epoch, self._steps = end, 0
        for sequence, chunk in self._chunks:
            sequence.prefill_left -= chunk
            if not sequence.prefill_left:
                del self._prefilling[sequence]
                self._finish_prefill(sequence, end)

    def _finish_prefill(self, sequence: _Sequence, at: float) -> None:
        """Give a sequence the token that ends its prefill."""
        if sequence.first_token_at is None:
            sequence.first_token_at = at
            self.stats.time_to_first_token.observe(at - sequence.queued_at)
            self.stats.prompt_tokens += sequence.request.prompt_tokens
        else:
            self.stats.inter_token_latency.observe(at - sequence.last_token_at)
        self.stats.generation_tokens += 1
        sequence.generated += 1
        sequence.done_at_step = self.steps + sequence.request.output_tokens - sequence.generated
        self._admissions += 1
        heapq.heappush(self._by_end, (sequence.done_at_step, self._admissions, sequence))

    def _decode(self, steps: int) -> None:
        """Do so many decode steps of the stretch."""
        if steps > 0:
            self._give_tokens(len(self._running), steps)
            self._steps += steps

    def _give_tokens(self, decoding: int, steps: int) -> None:
        """Give each of ``decoding`` sequences ``steps`` tokens."""
        self.steps += steps
        self._kv_tokens += decoding * steps
        self.stats.generation_tokens += decoding * steps
        if decoding:
            first_s = self._step_s + self._growth_s * self._steps
            self.stats.inter_token_latency.observe_rising(first_s, self._growth_s, steps, decoding)

    def _finish(self) -> None:
        """End the sequences that have their last token."""
        at = self._now
        while self._by_end and self._by_end[0][0] <= self.steps:
            step, _, sequence = heapq.heappop(self._by_end)
            if sequence not in self._running or sequence.prefill_left or sequence.done_at_step != step:
                continue
            del self._running[sequence]
            self._kv_tokens -= sequence.request.total_tokens - 1
            self.last_ended_at = at
            self.stats.completed += 1
            self.stats.e2e_latency.observe(at - sequence.queued_at)
            self.stats.queue_time.observe((sequence.scheduled_at or 0.0) - sequence.queued_at)
            self._ended.append(self._outcome(sequence, at, completed=True))

    def _outcome(self, sequence: _Sequence, at: float, *, completed: bool) -> Outcome:
        first = sequence.first_token_at
        return Outcome(
            request=sequence.request,
            replica=self.name,
            ended_at=at,
            completed=completed,
            ttft_s=None if first is None else first - sequence.request.arrived_at,
            preemptions=sequence.preemptions,
        )
