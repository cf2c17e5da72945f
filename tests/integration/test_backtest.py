"""Backtests of what a real Prometheus has stored of a simulated fleet. That of a demo is in ``test_demo.py``."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scaler.adapters.recording import Recording
from scaler.cli.backtest import backtest
from scaler.model import Absent, Observation, Reading
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.lived import BEGAN, COLD_START_S, METADATA, TICK_S, rush_and_ebb, write_blocks
from tests.prometheus_server import start_prometheus

FOREVER = ("--storage.tsdb.retention.time=100y",)
CONFIG = "scrape_configs: []\n"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, promtool_bin: Path) -> Iterator[str]:
    """The address of a Prometheus that has stored what was scraped of a pool for 75 min."""
    folder = tmp_path_factory.mktemp("stored")
    write_blocks(rush_and_ebb()[1], namespace="serving", promtool=promtool_bin, data_dir=folder)
    with ExitStack() as cleanup:
        yield start_prometheus(CONFIG, data_dir=folder, extra_args=FOREVER, cleanup=cleanup).url


def scaled_object(path: Path, metadata: dict[str, str], *, namespace: str = "serving") -> Path:
    trigger = {"type": "external", "metadata": {"scalerAddress": "vllm-scaler:50051", **metadata}}
    identity = {"name": "vllm", "namespace": namespace}
    path.write_text(yaml.safe_dump({"kind": "ScaledObject", "metadata": identity, "spec": {"triggers": [trigger]}}))
    return path


def found(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(backtest, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def readings(seen: Observation) -> list[float]:
    """The load and the replicas; no traffic is -1, and missing -2."""
    # Releases of Prometheus differ in how they extrapolate the first rise of a counter, so rates are not among them.
    names = ("running", "waiting", "preemptions", "serving", "requested", "ready")
    ratios = seen.kv_usage_ratios
    values: list[Reading] = [getattr(seen, name) for name in names]
    values += [ratios] if isinstance(ratios, Absent) else list(ratios)
    return [{Absent.NO_TRAFFIC: -1.0, Absent.MISSING: -2.0}[one] if isinstance(one, Absent) else one for one in values]


def test_what_prometheus_has_stored_gives_the_decisions_that_were_made(stored: str, tmp_path: Path) -> None:
    policy, lived = rush_and_ebb()
    pool, saved = scaled_object(tmp_path / "vllm.yaml", METADATA), tmp_path / "past.jsonl.gz"
    # From the second tick on: at the first, nothing had been scraped.
    times = ("--from", BEGAN + TICK_S, "--to", lived.end)
    report = found(pool, "--prometheus-url", stored, *times, "--save", saved)

    past = [seen.observations[0] for seen in Recording(saved).ticks() if seen.at >= BEGAN]
    for seen, then in zip(past, lived.observations, strict=True):
        assert readings(seen) == pytest.approx(readings(then), rel=1e-6)
    history, decided = History(), []
    for seen in past:
        history, decision = advance(policy, history, seen)
        decided.append((decision.action, decision.lands_on, decision.reason.code))
    assert decided == [(one.action, one.lands_on, one.reason.code) for one in lived.decisions]
    (tried,) = report["policies"]
    assert tried["recorded"]["increases"] == tried["ours"]["increases"] >= 3
    assert tried["fewer_s"] == tried["ours"]["decreases"] * TICK_S
    assert tried["ours"]["unanswered_s"] == 0

    own = found(pool, "--history", saved, "--mode", "counterfactual", "--variant", "lean:slotsPerReplica=16")
    same, lean = own["policies"]
    assert same["cold_start_s"] == pytest.approx(COLD_START_S, abs=TICK_S)
    assert same["ours"]["replica_hours"] == pytest.approx(same["recorded"]["replica_hours"], rel=0.02)
    assert lean["ours"]["replica_hours"] < 0.8 * same["ours"]["replica_hours"]


def test_what_prometheus_has_not_is_missing_and_said(stored: str, tmp_path: Path) -> None:
    pool = scaled_object(tmp_path / "vllm.yaml", {**METADATA, "modelName": "another"})
    report = found(pool, "--prometheus-url", stored, "--from", BEGAN + 900, "--to", BEGAN + 1200)
    (tried,) = report["policies"]
    assert tried["missing_s"]["saturation"] == report["ticks"] * TICK_S
    assert tried["recorded"]["replica_hours"] > 0
