"""A morning of a pool that was scaled by hand, made up so that every number in it follows from these lines."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from scaler.adapters.recording import Header, Seen, recording_to
from scaler.config.trigger import parse_trigger
from scaler.model import Observation
from tests.builders import TICK_S, observation

SLOTS = 16
HALF_PAST_SEVEN = round(datetime(2026, 3, 2, 7, 30, tzinfo=UTC).timestamp() / TICK_S)
EIGHT = HALF_PAST_SEVEN + 120
HALF_PAST_NINE = EIGHT + 360
SCALED_OBJECT = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: vllm-llama
  namespace: serving
spec:
  scaleTargetRef:
    name: vllm-llama
  triggers:
    - type: external
      metricType: AverageValue
      metadata:
        scalerAddress: vllm-scaler.keda.svc.cluster.local:50051
        deployment: vllm-llama
        modelName: meta-llama/Llama-3.1-8B-Instruct
        slotsPerReplica: "16"
        ttftP95Seconds: "2.5"
        minReplicas: "1"
        maxReplicas: "20"
        hpaTolerance: "0"
"""
METADATA = {
    "deployment": "vllm-llama",
    "modelName": "meta-llama/Llama-3.1-8B-Instruct",
    "slotsPerReplica": "16",
}


def morning() -> list[Observation]:
    """Ticks from half past seven to half past nine: four replicas, and six from twenty to nine on."""
    return [_seen(tick) for tick in range(HALF_PAST_SEVEN, HALF_PAST_NINE)]


def save_morning(path: Path) -> Path:
    """Write the morning as ``--save`` would have, if it had been asked for from eight o'clock on."""
    locator = parse_trigger("serving", "vllm-llama", METADATA, tick_s=TICK_S).policy.locator
    with recording_to(path, Header(TICK_S, EIGHT * TICK_S, (locator,))) as write:
        for seen in morning():
            write(Seen(seen.at, (seen,)))
    return path


def _seen(tick: int) -> Observation:
    minute = (tick - EIGHT) / 4
    requested, serving = (6 if minute >= 40 else 4), (6 if minute >= 43 else 4)
    # Calm until quarter past eight, a rush until nine, and back again; with a ripple as traffic has one.
    load = 30.0 + max(0.0, min(3 * (minute - 15), 90.0, 3 * (75 - minute))) + tick * 7 % 5 - 2
    seen = observation(tick, load, serving, slots=SLOTS, requested=float(requested))
    assert isinstance(seen.waiting, float)
    return replace(seen, ttft_p95_s=0.3 + 0.2 * seen.waiting)
