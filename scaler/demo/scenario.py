"""What the demo plays: the traffic, the fleet, and how the scaler and the HPA are set, all at a demo's pace.

Everything is some ten times quicker than in production, and wall-clock time is the fleet's time. Traffic takes shares
of the duration; below three minutes the fleet and its windows get quicker too, so that a minute still shows it all.
"""

from dataclasses import dataclass
from typing import Final

import yaml

from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import FleetSpec
from scaler.sim.hpa import Behavior, HpaSpec, ScalingPolicy, ScalingRules
from scaler.sim.workload import LoadPhase, LoadProfile, TokenLengths

NAMESPACE: Final = "demo"
DEPLOYMENT: Final = "vllm-demo"
MODEL_NAME: Final = "demo/llama-3.1-8b"
SCALED_OBJECT: Final = "vllm-demo"

SCRAPE_INTERVAL_S: Final = 1.0
EVALUATION_INTERVAL_S: Final = 1.0
POLL_INTERVAL_S: Final = 2.0
"""How often the stand-in does what KEDA does every 30 s and the HPA every 15 s."""

SHORTEST_S: Final = 60.0
"""A shorter demo would end before replicas that its burst asks for have started and gone again."""
_FULL_PACE_S: Final = 180.0

_SLOTS: Final = 8
_MIN_REPLICAS: Final = 2
_MAX_REPLICAS: Final = 10
_TTFT_SLO_S: Final = 1.0
# What a GPU of the middle class costs in a cloud; the budget is above what the most replicas cost.
_REPLICA_HOURLY_COST, _MAX_HOURLY_COST = 2.5, 30

# A request takes some 2.7 s, so one replica serves 3 a second: the rates need 1, 3 and 7 replicas.
_CALM, _PLATEAU, _BURST = 2.0, 6.5, 19.0
_PHASES: Final = (
    ("calm", 0.09, _CALM, _CALM),
    ("rise", 0.10, _CALM, _PLATEAU),
    ("plateau", 0.13, _PLATEAU, _PLATEAU),
    ("burst", 0.18, _BURST, _BURST),
    ("plateau", 0.14, _PLATEAU, _PLATEAU),
    ("ebb", 0.07, _PLATEAU, _CALM),
    ("calm", 0.29, _CALM, _CALM),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is fixed before a run."""

    profile: LoadProfile
    prompt: TokenLengths
    output: TokenLengths
    fleet: FleetSpec
    hpa: HpaSpec
    metadata: dict[str, str]
    """The trigger's metadata, but for the address of the scaler."""
    settle_s: float
    """How long after a change of the traffic replicas may still follow it."""

    @property
    def min_replicas(self) -> int:
        """Replicas at the start, and at least."""
        return self.hpa.min_replicas

    @property
    def slots_per_replica(self) -> int:
        """Requests that one replica is said to carry."""
        return _SLOTS

    @property
    def ttft_slo_s(self) -> float:
        """The objective for the time to first token."""
        return _TTFT_SLO_S


def scenario(duration_s: float) -> Scenario:
    """Return the demo of a length.

    Args:
        duration_s: Length of the traffic in seconds, at least ``SHORTEST_S``.

    Raises:
        ValueError: It is too short.
    """
    if duration_s < SHORTEST_S:
        raise ValueError(f"a demo takes at least {SHORTEST_S:g} s, not {duration_s:g} s")
    pace = min(1.0, duration_s / _FULL_PACE_S)
    cold_start_s = 3.0 + 3.0 * pace
    down_windows = 4 + round(6 * pace)
    rate_window_s = 10.0
    return Scenario(
        profile=LoadProfile(tuple(LoadPhase(name, share * duration_s, *rates) for name, share, *rates in _PHASES)),
        prompt=TokenLengths(median=120, spread=0.4, longest=600),
        output=TokenLengths(median=80, spread=0.4, longest=300),
        fleet=FleetSpec(
            deployment=DEPLOYMENT,
            engine=EngineSpec(
                slots=12,
                kv_capacity_tokens=4000,
                step_s=0.025,
                step_per_sequence_s=0.001,
                prefill_tokens_per_s=4000.0,
            ),
            cold_start_s=cold_start_s,
            cold_start_spread=0.2,
            drain_limit_s=30.0,
        ),
        hpa=HpaSpec(_MIN_REPLICAS, _MAX_REPLICAS, behavior=_behavior()),
        metadata={
            "deployment": DEPLOYMENT,
            "modelName": MODEL_NAME,
            "slotsPerReplica": str(_SLOTS),
            "scaleUpSaturation": "0.9",
            "scaleDownSaturation": "0.7",
            "ttftP95Seconds": f"{_TTFT_SLO_S:g}",
            "minReplicas": str(_MIN_REPLICAS),
            "maxReplicas": str(_MAX_REPLICAS),
            "scaleUpWindows": "3",
            "scaleDownWindows": str(down_windows),
            "scaleUpCooldownSeconds": "3",
            "scaleDownCooldownSeconds": f"{1 + 3 * pace:.2g}",
            "maxStepDown": "4",
            "drainHorizonSeconds": "5",
            "rateWindowSeconds": f"{rate_window_s:g}",
            "staleAfterSeconds": "5",
            "hpaTolerance": "0",
            "coldStartTimeoutSeconds": "60",
            "rolloutHoldSeconds": "5",
            "replicaHourlyCost": f"{_REPLICA_HOURLY_COST:g}",
            "maxHourlyCost": f"{_MAX_HOURLY_COST:g}",
        },
        settle_s=rate_window_s + cold_start_s,
    )


def _behavior() -> Behavior:
    """Return the behaviour of our manifests, with the policies' 15 s shortened as the HPA's sync is here."""
    up, down = Behavior().up, Behavior().down

    def quick(rules: ScalingRules) -> ScalingRules:
        policies = tuple(ScalingPolicy(each.kind, each.value, POLL_INTERVAL_S) for each in rules.policies)
        return ScalingRules(policies, window_s=0.0, tolerance=0.0)

    return Behavior(quick(up), quick(down))


def scaled_object(plan: Scenario, *, scaler_address: str) -> str:
    """Write the ScaledObject that the stand-in for KEDA acts upon, as YAML."""
    return yaml.safe_dump(
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": SCALED_OBJECT, "namespace": NAMESPACE},
            "spec": {
                "scaleTargetRef": {"name": DEPLOYMENT},
                "minReplicaCount": plan.hpa.min_replicas,
                "maxReplicaCount": plan.hpa.max_replicas,
                "advanced": {
                    "horizontalPodAutoscalerConfig": {
                        "behavior": {
                            "scaleUp": {"stabilizationWindowSeconds": 0, "tolerance": "0"},
                            "scaleDown": {"stabilizationWindowSeconds": 0, "tolerance": "0"},
                        }
                    }
                },
                "triggers": [
                    {
                        "type": "external",
                        "metricType": "AverageValue",
                        "metadata": {"scalerAddress": scaler_address, **plan.metadata},
                    }
                ],
            },
        },
        sort_keys=False,
    )
