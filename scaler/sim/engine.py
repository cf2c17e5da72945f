"""One vLLM engine: continuous batching over a KV cache, in virtual time.

Theory. The engine works in steps. A step gives one token to every sequence that is decoding, and works off up to a
budget of prompt tokens of sequences that are not there yet (chunked prefill). Between two changes of the batch all
steps are alike, so whole stretches of decoding are passed in one go: the cost of a simulation goes with the number of
requests, not with that of tokens or steps.

State. ``now`` is the start of the step that is being worked on, so it can be earlier than the time that the engine was
advanced to: what a step does counts at its end. A request that arrives during a step is looked at when the step ends.
How often, and how far at a time, the engine is advanced makes no difference to what happens.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from scaler.sim.histogram import INTER_TOKEN_BOUNDS_S, REQUEST_BOUNDS_S, TTFT_BOUNDS_S, Histogram
from scaler.sim.request import Outcome, Request

# Share of the KV cache that stays free when a request is admitted to others, so that their next tokens do not throw it
# out at once; vLLM's old watermark.
_WATERMARK: Final = 0.01
# A quotient such as 2.9999999999 steps is 3 with rounding error.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What one engine can do.

    A step takes step_s + step_per_sequence_s * decoding sequences + prompt tokens / prefill_tokens_per_s: with 20 ms,
    1 ms and 1000/s, a step that decodes 10 sequences and prefills 100 tokens takes 130 ms.
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

    def __post_init__(self) -> None:
        counts = (self.slots, self.kv_capacity_tokens, self.max_batched_tokens - self.slots)
        if min(*counts, self.step_s, self.prefill_tokens_per_s) <= 0 or self.step_per_sequence_s < 0:
            raise ValueError(f"sizes, times and rates of an engine are above zero, and a step holds all slots: {self}")


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
    generated: int = 0
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
        self.stats = EngineStats()
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._prefilling: list[_Sequence] = []
        self._kv_tokens = 0
        # now = _epoch + _steps * (time of a step): exact however a stretch of equal steps is cut.
        self._epoch = started_at
        self._steps = 0
        self._decode_steps = 0
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
        """Share of the KV cache in use, 0 to 1."""
        return self._kv_tokens / self.spec.kv_capacity_tokens

    @property
    def awaiting_first_token(self) -> list[float]:
        """Arrival times, at the fleet, of the requests that have no token yet."""
        everyone = (*self._running, *self._waiting)
        return [sequence.request.arrived_at for sequence in everyone if sequence.first_token_at is None]

    def accepts(self, request: Request) -> bool:
        """Tell whether a request fits into the KV cache at all; vLLM refuses longer ones."""
        return request.total_tokens <= self.spec.kv_capacity_tokens

    def submit(self, request: Request, at: float) -> None:
        """Queue a request; the engine must have been advanced to ``at``.

        Raises:
            ValueError: The request can never fit; see ``accepts``.
        """
        if not self.accepts(request):
            raise ValueError(f"{request} does not fit into {self.spec.kv_capacity_tokens} tokens of KV cache")
        self._waiting.append(_Sequence(request, queued_at=at, prefill_left=request.prompt_tokens))

    def advance(self, to: float) -> list[Outcome]:
        """Work until ``to`` and return the requests that ended, in the order of their ends."""
        while True:
            self._admit()
            if not self._running:
                if not self._waiting or self._waiting[0].queued_at > to:
                    self._rebase(max(to, self._now))
                    break
                self._rebase(max(self._waiting[0].queued_at, self._now))
            elif not (self._mixed_step(to) if self._prefilling else self._decode(to)):
                break
        ended, self._ended = self._ended, []
        return ended

    def abort(self, at: float) -> list[Outcome]:
        """Cut off every request, as when the pod is killed."""
        sequences = (*self._running, *self._waiting)
        self.last_ended_at = at
        self._running, self._prefilling, self._kv_tokens = [], [], 0
        self._waiting.clear()
        return [self._outcome(sequence, at, completed=False) for sequence in sequences]

    @property
    def _now(self) -> float:
        return self._epoch + self._steps * self._step_s()

    def _rebase(self, now: float) -> None:
        """Begin a stretch of equal steps; to be called before the batch changes."""
        self._epoch, self._steps = now, 0

    def _step_s(self) -> float:
        decoding = len(self._running) - len(self._prefilling)
        return self.spec.step_s + self.spec.step_per_sequence_s * decoding

    def _admit(self) -> None:
        """Move requests from the queue into the batch, first come first served, while slots and KV cache allow."""
        now = self._now
        while self._waiting and len(self._running) < self.spec.slots:
            sequence = self._waiting[0]
            tokens = sequence.request.prompt_tokens + sequence.generated
            spare = self.spec.kv_capacity_tokens - self._kv_tokens - tokens
            watermark = self.spec.kv_capacity_tokens * _WATERMARK if self._running else 0
            if sequence.queued_at > now or spare < watermark:
                return
            self._rebase(now)
            self._waiting.popleft()
            sequence.prefill_left = tokens
            if sequence.scheduled_at is None:
                sequence.scheduled_at = now
            self._kv_tokens += tokens
            self._running.append(sequence)
            self._prefilling.append(sequence)

    def _make_room(self) -> None:
        """Preempt, newest first, until each decoding sequence has room for one more token."""
        while self._kv_tokens + len(self._running) - len(self._prefilling) > self.spec.kv_capacity_tokens:
            self._rebase(self._now)
            sequence = self._running.pop()
            if sequence.prefill_left:
                self._prefilling.remove(sequence)
            else:
                sequence.generated = self._generated(sequence)
            self._kv_tokens -= sequence.request.prompt_tokens + sequence.generated - (0 if sequence.prefill_left else 1)
            sequence.preemptions += 1
            self.stats.preemptions += 1
            self._waiting.appendleft(sequence)

    def _generated(self, sequence: _Sequence) -> int:
        """Tokens that a decoding sequence has so far."""
        return sequence.request.output_tokens - (sequence.done_at_step - self._decode_steps)

    def _mixed_step(self, to: float) -> bool:
        """Do one step with prompt tokens in it, if it ends by ``to``."""
        self._make_room()
        decoding = len(self._running) - len(self._prefilling)
        budget = self.spec.max_batched_tokens - decoding
        chunks: list[tuple[_Sequence, int]] = []
        for sequence in self._prefilling:
            chunk = min(sequence.prefill_left, budget)
            budget -= chunk
            if chunk:
                chunks.append((sequence, chunk))
        prompt_tokens = sum(chunk for _, chunk in chunks)
        duration = self._step_s() + prompt_tokens / self.spec.prefill_tokens_per_s
        end = self._now + duration
        if end > to:
            return False
        self._rebase(end)
        self._give_tokens(decoding, steps=1, step_s=duration)
        for sequence, chunk in chunks:
            sequence.prefill_left -= chunk
            if not sequence.prefill_left:
                self._prefilling.remove(sequence)
                self._finish_prefill(sequence, end)
        self._finish(end)
        return True

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
        sequence.done_at_step = self._decode_steps + sequence.request.output_tokens - sequence.generated

    def _decode(self, to: float) -> bool:
        """Do as many equal decode steps as end by ``to`` and before the batch may change; False when there is none."""
        self._make_room()
        decoding = len(self._running)
        step_s = self._step_s()
        steps = math.floor((to - self._epoch) / step_s + _ROUNDING) - self._steps
        steps = min(steps, min(sequence.done_at_step for sequence in self._running) - self._decode_steps)
        steps = min(steps, (self.spec.kv_capacity_tokens - self._kv_tokens) // decoding)
        if self._waiting and self._waiting[0].queued_at > self._now and decoding < self.spec.slots:
            # It is looked at when the step in which it arrived has ended.
            until = math.ceil((self._waiting[0].queued_at - self._epoch) / step_s - _ROUNDING) - self._steps
            steps = min(steps, max(1, until))
        if steps <= 0:
            return False
        self._steps += steps
        self._give_tokens(decoding, steps=steps, step_s=step_s)
        self._finish(self._now)
        return True

    def _give_tokens(self, decoding: int, *, steps: int, step_s: float) -> None:
        """Give each of ``decoding`` sequences ``steps`` tokens."""
        self._decode_steps += steps
        self._kv_tokens += decoding * steps
        self.stats.generation_tokens += decoding * steps
        if decoding:
            self.stats.inter_token_latency.observe(step_s, decoding * steps)

    def _finish(self, at: float) -> None:
        """End the sequences that have their last token."""
        done = [each for each in self._running if not each.prefill_left and each.done_at_step <= self._decode_steps]
        if not done:
            return
        self._rebase(at)
        self.last_ended_at = at
        for sequence in done:
            self._running.remove(sequence)
            self._kv_tokens -= sequence.request.total_tokens - 1
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
