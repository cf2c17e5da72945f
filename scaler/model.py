"""The values that flow through the service, all frozen: Prometheus -> Observation -> Decision -> KEDA.

What may live here: data that more than one layer speaks about. No behaviour beyond what is derived from the fields.
Counts are replicas, times are seconds, usage is a ratio from 0 to 1, and instants are Unix seconds.
"""

import enum
from dataclasses import dataclass, field
from typing import TypeAlias


class Absent(enum.Enum):
    """Why a reading is not a number. The two are never mixed up with each other or with zero."""

    NO_TRAFFIC = "no_traffic"
    """The series exist and nothing happened in the window (Prometheus says NaN)."""
    MISSING = "missing"
    """No series, stale series, or the query failed."""


Reading: TypeAlias = float | Absent
"""A finite number of zero or more, or why there is none."""


class WorkloadKind(enum.StrEnum):
    """The kinds of workload that run vLLM replicas; the value is the key in trigger metadata."""

    DEPLOYMENT = "deployment"
    STATEFUL_SET = "statefulSet"
    LEADER_WORKER_SET = "leaderWorkerSet"


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload that KEDA scales, in the ScaledObject's own namespace."""

    kind: WorkloadKind
    name: str


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """One further condition on a pool's series, as in PromQL: ``operator`` is one of = != =~ !~."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """One trigger of one ScaledObject. ``trigger`` is a short fingerprint of its metadata."""

    namespace: str
    scaled_object: str
    trigger: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.scaled_object}#{self.trigger}"


@dataclass(frozen=True, slots=True)
class PoolLocator:
    """Where a pool's series are. At least one of ``model_name`` and ``workload`` is set."""

    namespace: str
    model_name: str | None
    workload: Workload | None
    matchers: tuple[LabelMatcher, ...] = ()
    rate_window_s: float = 60.0
    """Window of rates and quantiles; at least four scrape intervals."""
    stale_after_s: float = 90.0
    """A replica whose newest sample is older does not count as serving."""

    def __str__(self) -> str:
        if self.workload is not None:
            return f"{self.workload.kind}/{self.workload.name}"
        return f"model/{self.model_name}"


class SignalName(enum.StrEnum):
    """The signals of the law; the value is the name in records, metrics and dashboards."""

    SATURATION = "saturation"
    KV_CACHE = "kv_cache"
    TTFT_P95 = "ttft_p95"


@dataclass(frozen=True, slots=True)
class SignalWindows:
    """For how many ticks a signal must ask before it is heard."""

    scale_up: int
    scale_down: int


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """How one pool is to be scaled. Built and checked by ``scaler.config``; the law trusts it.

    ``scale_up_saturation`` and its like are shares of capacity; ``*_windows`` are ticks; ``*_s`` are seconds.
    """

    locator: PoolLocator
    tick_s: float
    slots_per_replica: int
    scale_up_saturation: float
    scale_down_saturation: float
    scale_down_noise: float
    kv_cache_scale_up: float
    kv_cache_scale_down: float
    ttft_p95_s: float
    latency_min_saturation: float
    latency_min_samples: int
    latency_scale_down_ratio: float
    drain_horizon_s: float
    saturation_windows: SignalWindows
    kv_cache_windows: SignalWindows
    ttft_p95_windows: SignalWindows
    scale_up_cooldown_s: float
    scale_down_cooldown_s: float
    max_step_up: int
    max_step_down: int
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of one pool at one tick. Sums go over every engine of every fresh replica."""

    at: float
    running: Reading = Absent.MISSING
    """Requests in the engines' running lists."""
    waiting: Reading = Absent.MISSING
    """Requests that more replicas would help: the waiting queue less the deferred ones."""
    kv_usage_ratios: tuple[float, ...] | Absent = Absent.MISSING
    """KV-cache usage of each replica that reports it, 0..1, ascending."""
    ttft_p95_s: Reading = Absent.MISSING
    """P95 time to first token over the rate window, from the histogram."""
    ttft_samples: Reading = Absent.MISSING
    """First tokens in the rate window."""
    generation_tokens_per_s: Reading = Absent.MISSING
    preemptions: Reading = Absent.MISSING
    """Preemptions in the rate window."""
    serving: Reading = Absent.MISSING
    """Replicas with fresh metrics; 0 when the query answered and nobody reports."""
    requested: Reading = Absent.MISSING
    """The workload's spec.replicas (kube-state-metrics)."""
    ready: Reading = Absent.MISSING
    """The workload's ready replicas (kube-state-metrics); more than ``serving`` means that metrics are being lost."""
    outdated: Reading = Absent.MISSING
    """Replicas not yet on the newest revision (kube-state-metrics); above 0 a rollout is under way."""
    newest_sample_age_s: Reading = Absent.MISSING
    """Age of the freshest replica's newest sample at ``at``."""
    notes: tuple[str, ...] = ()
    """Why readings are missing or were corrected, a sentence each."""


class Action(enum.StrEnum):
    """What a decision does to the pool."""

    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    HOLD = "hold"


class ReasonCode(enum.StrEnum):
    """Why a decision is what it is: stable names for records, metrics and alerts."""

    NEED_ABOVE = "need_above"
    """A signal asked for more replicas all through its window."""
    BURST = "burst"
    """The load needs at least twice the replicas now, so neither window nor cooldown is waited for."""
    INCREASE_PENDING = "increase_pending"
    """An increase published earlier is not carried out yet and stays published."""
    NEED_BELOW = "need_below"
    """All signals agreed, all through their windows, that fewer replicas do."""
    DECREASE_PENDING = "decrease_pending"
    """A decrease published earlier is not carried out yet and is still right."""
    DEAD_BAND = "dead_band"
    """Between what scales up and what scales down: nothing to do."""
    WINDOW_UP = "window_up"
    """A signal asks for more, but not for long enough yet."""
    WINDOW_DOWN = "window_down"
    """Fewer replicas would do now, but not for long enough yet."""
    COOLDOWN_UP = "cooldown_up"
    """Too soon after the last increase."""
    COOLDOWN_DOWN = "cooldown_down"
    """Too soon after the last change."""
    REPLICAS_STARTING = "replicas_starting"
    """Replicas that were asked for are not serving yet."""
    REPLICAS_UNREPORTED = "replicas_unreported"
    """Ready replicas report no metrics: their load is unknown."""
    ROLLOUT = "rollout"
    """A rollout is under way."""
    PREEMPTIONS = "preemptions"
    """Requests were preempted for want of KV cache in the window."""
    SIGNAL_MISSING = "signal_missing"
    """A required signal is missing now or was for too much of the window, so nothing scales down."""
    NO_DATA = "no_data"
    """Nothing to decide on: the last answer is held."""
    STEP_LIMIT = "step_limit"
    MIN_REPLICAS = "min_replicas"
    MAX_REPLICAS = "max_replicas"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a stable code, and the sentence for a person, with the numbers in it."""

    code: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class SignalState:
    """One signal at one decision: what was seen, what it asks for, and for how long it has."""

    name: SignalName
    value: Reading
    unit: str
    scale_up_threshold: float
    """The value above which the signal asks for more replicas than serve now."""
    scale_down_threshold: float
    up_need: int | None
    """Replicas that the newest value asks for; None = no vote."""
    down_need: int | None
    """Replicas that the newest value can be served with; None = no vote, so no scale-down."""
    up_sustained: int | None
    """Replicas that were asked for all through the up window."""
    down_sustained: int | None
    """The most replicas that any tick of the down window needed."""
    up_windows_met: int
    up_windows_required: int
    down_windows_met: int
    down_windows_required: int
    note: str = ""
    """Why there is no vote, where there is none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick's answer for one pool."""

    at: float
    action: Action
    from_replicas: int | None
    """Replicas that were requested when this was decided (n)."""
    target: int | None
    """Replicas decided, after limits; None when nothing was ever known of the pool."""
    reported_value: float | None
    """What KEDA is told."""
    active: bool
    """What IsActive answers."""
    reasons: tuple[Reason, ...]
    """Why, the deciding one first."""
    limits: tuple[Reason, ...]
    """What cut the need down or lifted it: step, minimum, maximum."""
    signals: tuple[SignalState, ...]
    up_need: int | None
    """up(t): the greatest sustained up-need of any signal."""
    down_need: int | None
    """down(t): the greatest down-need of any signal in its window."""
    observation: Observation
    pending: int
    """Requested replicas that do not serve yet."""
    usable_at: float | None
    """The newest tick with data to decide on; None = there was none yet."""
    notes: tuple[str, ...] = field(default=())

    @property
    def reason(self) -> Reason:
        """The deciding reason."""
        return self.reasons[0]
