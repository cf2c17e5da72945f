"""The values that flow through the service, all frozen: Prometheus -> Observation -> Decision -> KEDA.

What may live here: data that more than one layer speaks about. No behaviour beyond what is derived from the fields.
Counts are replicas, times are seconds, usage is a ratio from 0 to 1, and instants are Unix seconds.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Self, TypeAlias

from scaler.units import floor_replicas


class Absent(enum.Enum):
    """Why a reading is not a number. The two are never mixed up with each other or with zero."""

    NO_TRAFFIC = "no_traffic"
    """The series exist and nothing happened in the window (Prometheus says NaN)."""
    MISSING = "missing"
    """No series, stale series, or the query failed."""


Reading: TypeAlias = float | Absent
"""A finite number of zero or more, or why there is none."""


DEFAULT_BACKEND: Final = "default"
"""Name of the Prometheus that a pool is read from where its trigger names none."""


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
    extras: tuple[str, ...] = ()
    """Names of the further readings that the pool asks for, ascending: signals, and what wakes it at zero."""
    restart_window_s: float = 0.0
    """How far back restarts of engines are looked for; 0 where nobody asks."""
    backend: str = DEFAULT_BACKEND
    """Name of the Prometheus that has the pool's series, as the operator of the service calls it."""

    def __str__(self) -> str:
        if self.workload is not None:
            return f"{self.workload.kind}/{self.workload.name}"
        return f"model/{self.model_name}"


class SignalName(enum.StrEnum):
    """The signals of the law; the value is the name in records, metrics and dashboards."""

    SATURATION = "saturation"
    KV_CACHE = "kv_cache"
    TTFT_P95 = "ttft_p95"
    WAITING = "waiting"
    ITL_P95 = "itl_p95"
    QUEUE_TIME_P95 = "queue_time_p95"
    E2E_P95 = "e2e_p95"
    PREEMPTION_RATE = "preemption_rate"
    REJECTION_RATE = "rejection_rate"
    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    GPU = "gpu"


RESTARTS: Final = "restarts"
"""Extra reading: how often engines of the pool restarted within ``PoolLocator.restart_window_s``."""
CUSTOM_SIGNAL_PREFIX: Final = "custom:"
"""A signal that the service's operator has named is called ``custom:<name>``."""

ROUTER_ACTIVATION: Final = "activation:router"
"""Extra reading that wakes a pool: requests for its model at the production stack's router in the rate window."""
GATEWAY_ACTIVATION: Final = "activation:gateway"
"""Extra reading that wakes a pool: requests for its model in the flow-control queue of the inference gateway."""
CUSTOM_ACTIVATION_PREFIX: Final = f"activation:{CUSTOM_SIGNAL_PREFIX}"
"""Extra reading that wakes a pool: the named query of the service's operator that follows."""


class SignalForm(enum.StrEnum):
    """How a signal's value becomes replicas."""

    SATURATION = "saturation"
    """Requests in flight against slots."""
    KV_CACHE = "kv_cache"
    """Usage of each replica."""
    LATENCY = "latency"
    """A P95 against its objective, in seconds."""
    CAPACITY = "capacity"
    """A total of the pool against what one replica carries."""
    INTENSITY = "intensity"
    """A level that more replicas lower."""


@dataclass(frozen=True, slots=True)
class SignalWindows:
    """For how many ticks a signal must ask before it is heard."""

    scale_up: int
    scale_down: int


@dataclass(frozen=True, slots=True)
class SignalPolicy:
    """One signal of a pool and where it scales.

    Args:
        name: A ``SignalName``, or ``custom:<name>``.
        form: How its value becomes replicas.
        scale_up: More replicas are needed above this: a share of the slots (saturation), a ratio (KV cache), seconds
            (latency), units for each replica (capacity), or the signal's unit (intensity).
        scale_down: Fewer must keep to this, in the same unit; for a latency, as a share of the objective.
        windows: For how many ticks it must ask.
        unit: The unit of its value.
        min_support: It asks for more only on this much evidence: samples behind a quantile, GPU memory in use (ratio).
    """

    name: str
    form: SignalForm
    scale_up: float
    scale_down: float
    windows: SignalWindows
    unit: str
    min_support: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """How one pool is to be scaled. Built and checked by ``scaler.config``; the law trusts it.

    ``*_s`` are seconds, ``*_cost`` are in the operator's currency, ``*_ratio`` and ``*_saturation`` are shares.
    """

    locator: PoolLocator
    tick_s: float
    slots_per_replica: int
    signals: tuple[SignalPolicy, ...]
    """The saturation first; every one of them may scale up, and all must agree to scale down."""
    scale_down_noise: float
    latency_min_saturation: float
    drain_horizon_s: float
    scale_up_cooldown_s: float
    scale_down_cooldown_s: float
    max_step_up: int
    max_step_down: int
    min_replicas: int
    max_replicas: int
    warm_replicas: int = 0
    """Spare replicas on top of what is needed."""
    replica_hourly_cost: float | None = None
    max_hourly_cost: float | None = None
    """Never more replicas than this pays for."""
    cold_start_timeout_s: float = 600.0
    """A replica that has been starting for longer is stuck."""
    rollout_hold_s: float = 300.0
    """No scale-down for so long after a rollout."""
    protect_queue_wait_s: float = 30.0
    """A longer wait in the queue of a capped pool raises its protection to grade 2."""
    hpa_tolerance: float = 0.1
    """Relative change of the count that the HPA ignores; Kubernetes' own default is 0.1."""
    activation: str | None = None
    """The extra reading that wakes the pool at zero replicas; None where ``min_replicas`` is at least 1."""
    preset: str = ""
    """The named set of defaults that the settings started from."""

    @property
    def affordable_replicas(self) -> int | None:
        """The most replicas that ``max_hourly_cost`` pays for; None without a limit."""
        if self.replica_hourly_cost is None or self.max_hourly_cost is None:
            return None
        return floor_replicas(self.max_hourly_cost / self.replica_hourly_cost)

    @property
    def highest_replicas(self) -> int:
        """The most replicas that may be asked for, by maximum and cost."""
        affordable = self.affordable_replicas
        return self.max_replicas if affordable is None else min(self.max_replicas, affordable)


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What one serving replica carries."""

    name: str
    """Its pod, or its address where there is no pod label."""
    running: float
    waiting: float
    generation_tokens_per_s: Reading = Absent.MISSING

    @property
    def in_flight(self) -> float:
        """Requests running and waiting."""
        return self.running + self.waiting


@dataclass(frozen=True, slots=True)
class Extra:
    """A reading that only some pools ask for.

    Args:
        value: In the signal's unit.
        support: The evidence behind it: samples of a quantile, or the GPUs' memory in use (ratio).
    """

    value: Reading
    support: Reading = Absent.MISSING


_NO_EXTRAS: Final[Mapping[str, Extra]] = MappingProxyType({})


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
    replicas: tuple[ReplicaLoad, ...] = ()
    """The serving replicas whose load is known, by name."""
    extras: Mapping[str, Extra] = field(default_factory=lambda: _NO_EXTRAS)
    """Further readings by name, for the pools that ask for them; a name that is not here is missing."""
    notes: tuple[str, ...] = ()
    """Why readings are missing or were corrected, a sentence each."""


class Action(enum.StrEnum):
    """What a decision does to the pool."""

    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    HOLD = "hold"


class ReasonCode(enum.StrEnum):
    """Why a decision is what it is: stable names for records, metrics and alerts, each with its meaning."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a member of its name and its meaning in a sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    NEED_ABOVE = "need_above", "A signal asked for more replicas all through its window."
    BURST = (
        "burst",
        "The load grows, or needs more replicas than noise explains; neither window nor cooldown is waited for.",
    )
    INCREASE_PENDING = "increase_pending", "An increase published earlier is not carried out yet and stays published."
    NEED_BELOW = "need_below", "All signals agreed, all through their windows, that fewer replicas do."
    DECREASE_PENDING = "decrease_pending", "A decrease published earlier is not carried out yet and is still right."
    DEAD_BAND = "dead_band", "Between what scales up and what scales down: nothing to do."
    WINDOW_UP = "window_up", "A signal asks for more, but not for long enough yet."
    WINDOW_DOWN = "window_down", "Fewer replicas would do now, but not for long enough yet."
    COOLDOWN_UP = "cooldown_up", "Too soon after the last increase."
    COOLDOWN_DOWN = "cooldown_down", "Too soon after the last change."
    REPLICAS_STARTING = "replicas_starting", "Replicas that were asked for are not serving yet."
    REPLICAS_UNREPORTED = "replicas_unreported", "Ready replicas report no metrics: their load is unknown."
    ROLLOUT = "rollout", "A rollout is under way."
    RESTARTS = "restarts", "Engines have restarted, out of memory or otherwise, so nothing scales down for a while."
    PREEMPTIONS = "preemptions", "Requests were preempted for want of KV cache in the window."
    SIGNAL_MISSING = "signal_missing", "A signal of the pool is missing now, so nothing scales down."
    FILLING_HISTORY = (
        "filling_history",
        "The pool is new to this process: until its past is read from Prometheus, only a burst changes the replicas.",
    )
    PAST_UNKNOWN = "past_unknown", "The pool's past could not be read: windows fill by themselves."
    NO_DATA = "no_data", "Nothing to decide on: the last answer is held."
    STEP_LIMIT = "step_limit", "One step may not go further."
    MIN_REPLICAS = "min_replicas", "Fewer than `minReplicas` are not allowed."
    MAX_REPLICAS = "max_replicas", "More than `maxReplicas` are not allowed."
    COST_LIMIT = "cost_limit", "More replicas would cost more than `maxHourlyCost`."
    WARM_REPLICAS = "warm_replicas", "Spare replicas were added to the need."
    REPLICAS_STUCK = (
        "replicas_stuck",
        "Replicas have been starting for longer than `coldStartTimeoutSeconds`; asking for more would not help.",
    )
    HPA_FRACTION = (
        "hpa_fraction",
        "The HPA's tolerance ignores the target itself: a fraction that it rounds up to the target is reported.",
    )
    HPA_OVERSHOOT = (
        "hpa_overshoot",
        "The HPA's tolerance makes an increase impossible: the next larger one that it follows is reported.",
    )
    HPA_TOLERANCE = (
        "hpa_tolerance",
        "The HPA's tolerance makes the target impossible to reach: the replicas stay as they are.",
    )
    ACTIVATION = "activation", "What wakes the pool at zero replicas decided."
    ACTIVATION_MISSING = "activation_missing", "What wakes the pool at zero replicas cannot be read."
    REGRET = "regret", "Increases soon after decreases have lengthened the scale-down window."
    FUTILE_LATENCY = "futile_latency", "More replicas did not lower a latency, so it asks for no more."
    LATENCY_BASE = "latency_base", "A latency is above its objective even in a quiet pool."
    SLO_OFF_BUCKET = (
        "slo_off_bucket",
        "The objective lies between bounds of vLLM's histogram, so its quantile is an estimate.",
    )
    IMBALANCE = (
        "imbalance",
        "One replica carries far more than the others, which have room: routing is at fault, not capacity.",
    )
    WEDGED_REPLICA = "wedged_replica", "A replica has requests waiting and produces next to nothing."
    SLOTS_TOO_LOW = "slots_too_low", "A replica runs far more requests at once than `slotsPerReplica` says."


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a stable code, and the sentence for a person, with the numbers in it.

    Args:
        code: What kind of reason it is.
        text: The sentence.
        left_s: For what ends by itself: how long still, seconds.
        windows: For what must last: ticks done, and ticks required.
    """

    code: ReasonCode
    text: str
    left_s: float | None = None
    windows: tuple[int, int] | None = None


class SignalState(NamedTuple):
    """One signal at one decision: what was seen, what it asks for, and for how long it has."""

    name: str
    value: Reading
    unit: str
    scale_up_threshold: float
    """The value above which the signal asks for more replicas than are requested now."""
    scale_down_threshold: float
    """The value up to which it would be content with one replica fewer."""
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
    """Why there is no vote, where there is none, and what counts besides the value, where something does."""


class Protection(enum.IntEnum):
    """How far a pool is beyond what it can be given, so that gateways can shed load in steps."""

    NONE = 0
    CAPPED = 1
    """Limits, or replicas that do not start, keep the pool below what it needs."""
    QUEUEING = 2
    """As CAPPED, and requests wait for longer than ``protectQueueWaitSeconds``."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick's answer for one pool."""

    at: float
    action: Action
    from_replicas: int | None
    """Replicas that were requested when this was decided (n)."""
    target: int | None
    """Replicas decided, after limits; None when there is nothing to answer with."""
    reported_value: float | None
    """What KEDA is told, so that the HPA goes to ``lands_on``."""
    active: bool
    """What IsActive answers."""
    reasons: tuple[Reason, ...]
    """Why, the deciding one first."""
    limits: tuple[Reason, ...]
    """What changed the need on its way to the target: warm replicas, step, bounds, cost, the HPA."""
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
    lands_on: int | None = None
    """Where the HPA goes with the reported value."""
    over_since: float | None = None
    """Since when a signal has asked for more replicas than are requested; None = none does."""
    protection: Protection = Protection.NONE
    protection_reason: str = ""
    queue_wait_s: Reading = Absent.MISSING
    """How long a request that comes now will wait: queue by recent completion rate (Little's law)."""
    hourly_cost: float | None = None
    """What the replicas cost an hour that the HPA goes to, where the price of one is known."""
    max_hourly_cost: float | None = None
    diagnostics: tuple[Reason, ...] = ()
    """What is wrong with settings, routing or single replicas; none of it decided."""
    preset: str = ""

    @property
    def reason(self) -> Reason:
        """The deciding reason."""
        return self.reasons[0]
