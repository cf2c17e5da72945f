"""The signals of a pool, from its trigger's metadata."""

from collections.abc import Iterator
from typing import Final

from scaler.config.metadata import TriggerMetadata
from scaler.model import CUSTOM_SIGNAL_PREFIX, RESTARTS, SignalForm, SignalName, SignalPolicy, SignalWindows

_ALWAYS_READ: Final = frozenset(
    {
        SignalName.SATURATION,
        SignalName.KV_CACHE,
        SignalName.TTFT_P95,
        SignalName.WAITING,
        SignalName.PREEMPTION_RATE,
        SignalName.GENERATION_TOKENS,
    }
)
"""What every observation holds anyway, so that no pool has to ask for it."""


def signals_of(parsed: TriggerMetadata) -> tuple[SignalPolicy, ...]:
    """Return the signals that a pool has: saturation first, optional ones last, custom ones by name after those."""
    return (*_standard(parsed), *_optional(parsed))


def extras_of(signals: tuple[SignalPolicy, ...], activation: str | None, *, restarts: bool) -> tuple[str, ...]:
    """Return the names of the readings that only some pools ask for, ascending.

    Args:
        signals: The pool's; some of them are such readings.
        activation: What wakes the pool, if anything does.
        restarts: Whether restarts of engines keep it from scaling down.
    """
    names = {str(signal.name) for signal in signals if signal.name not in _ALWAYS_READ}
    if activation is not None:
        names.add(activation)
    if restarts:
        names.add(RESTARTS)
    return tuple(sorted(names))


def _standard(parsed: TriggerMetadata) -> Iterator[SignalPolicy]:
    yield SignalPolicy(
        name=SignalName.SATURATION,
        form=SignalForm.SATURATION,
        scale_up=parsed.up_saturation,
        scale_down=parsed.scale_down_saturation,
        windows=_windows(parsed, parsed.saturation_scale_up_windows, parsed.saturation_scale_down_windows),
        unit="requests",
    )
    if parsed.kv_cache_scale_up is not None:
        yield SignalPolicy(
            name=SignalName.KV_CACHE,
            form=SignalForm.KV_CACHE,
            scale_up=parsed.kv_cache_scale_up,
            scale_down=parsed.kv_cache_scale_down,
            windows=_windows(parsed, parsed.kv_cache_scale_up_windows, parsed.kv_cache_scale_down_windows),
            unit="ratio",
        )
    if parsed.ttft_p95_seconds is not None:
        windows = _windows(parsed, parsed.ttft_scale_up_windows, parsed.ttft_scale_down_windows)
        yield _latency(parsed, SignalName.TTFT_P95, parsed.ttft_p95_seconds, windows)


def _optional(parsed: TriggerMetadata) -> Iterator[SignalPolicy]:
    windows = _windows(parsed)
    capacity, intensity, latency = SignalForm.CAPACITY, SignalForm.INTENSITY, SignalForm.LATENCY
    for name, form, value, unit in (
        (SignalName.WAITING, capacity, parsed.waiting_per_replica, "requests"),
        (SignalName.ITL_P95, latency, parsed.itl_p95_seconds, "seconds"),
        (SignalName.QUEUE_TIME_P95, latency, parsed.queue_time_p95_seconds, "seconds"),
        (SignalName.E2E_P95, latency, parsed.e2e_p95_seconds, "seconds"),
        (SignalName.PREEMPTION_RATE, intensity, parsed.preemptions_per_second, "events/s"),
        (SignalName.REJECTION_RATE, intensity, parsed.rejections_per_second, "events/s"),
        (SignalName.PROMPT_TOKENS, capacity, parsed.prompt_tokens_per_second_per_replica, "tokens/s"),
        (SignalName.GENERATION_TOKENS, capacity, parsed.generation_tokens_per_second_per_replica, "tokens/s"),
        (SignalName.GPU, intensity, parsed.gpu_utilization, "ratio"),
        *((f"{CUSTOM_SIGNAL_PREFIX}{name}", capacity, each, "") for name, each in parsed.custom_queries),
    ):
        if value is None:
            continue
        if form is latency:
            yield _latency(parsed, name, value, windows)
            continue
        yield SignalPolicy(
            name=name,
            form=form,
            scale_up=value,
            scale_down=value * parsed.threshold_scale_down_ratio,
            windows=windows,
            unit=unit,
            min_support=parsed.gpu_memory if name == SignalName.GPU else 0.0,
        )


def _latency(parsed: TriggerMetadata, name: str, objective_s: float, windows: SignalWindows) -> SignalPolicy:
    return SignalPolicy(
        name=name,
        form=SignalForm.LATENCY,
        scale_up=objective_s,
        scale_down=parsed.latency_scale_down_ratio,
        windows=windows,
        unit="seconds",
        min_support=parsed.latency_min_samples,
    )


def _windows(parsed: TriggerMetadata, up: int | None = None, down: int | None = None) -> SignalWindows:
    return SignalWindows(up or parsed.scale_up_windows, down or parsed.scale_down_windows)
