"""What the pages say of the code in numbers, records and lists is what the code gives."""

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from scaler.adapters import pool_metrics
from scaler.adapters.access import MAX_FILE_BYTES, MAX_SECRET_BYTES
from scaler.adapters.record import decision_record
from scaler.adapters.telemetry import Telemetry
from scaler.cli.simulate import simulate
from scaler.config.backends import BACKEND_LIMIT, HEADER_LIMIT, HEADER_VALUE_LENGTH, LABEL_LIMIT
from scaler.config.kinds import default_text
from scaler.config.scaled_object import read_scaled_object
from scaler.config.server import FIELDS as SETTINGS
from scaler.config.sources import load_settings, read_settings_file
from scaler.config.trigger import parse_trigger
from scaler.model import Decision, PoolKey, ReasonCode, ReplicaLoad
from scaler.policy import hpa
from scaler.policy.narrate import narrate
from scaler.promql.workloads import WORKLOAD_SERIES
from scaler.service.grpc_server import HEALTH_NAMES
from scaler.sim.workloads import WORKLOADS
from tests.builders import observation, policy, run

DOCS = Path(__file__).parents[3] / "docs"
NEW_YEAR_2026 = 1_767_225_600 // 15
"""A tick, for a record with a date that can be read."""
BAND_ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| (\d+) \|$", re.MULTILINE)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


BAND = [
    (int(now), int(to), float(value), int(at))
    for now, to, value, at in BAND_ROW.findall(page("concepts/keda-and-hpa.md"))
]


def test_the_band_is_shown_for_small_and_large_pools() -> None:
    assert {now for now, *_ in BAND} == {10, 15, 20, 30, 40}


@pytest.mark.parametrize(("requested", "target", "reported", "lands_on"), BAND)
def test_a_row_of_the_band_is_what_is_reported(requested: int, target: int, reported: float, lands_on: int) -> None:
    report = hpa.report(target, requested, tolerance=0.1, highest=100)
    assert report.value == pytest.approx(reported)
    assert report.lands_on == lands_on


def test_below_ten_replicas_every_count_is_reported_as_it_is() -> None:
    reports = {
        (target, now): hpa.report(target, now, tolerance=0.1, highest=100) for target in range(20) for now in range(10)
    }
    assert [pair for pair, report in reports.items() if report.value != pair[0]] == []


def bounds() -> list[tuple[str, str]]:
    """Each bound of the limits table that settings move: the text, and one of the settings."""
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) \| (`[^|]+) \|$", page("architecture.md").partition("## Limits")[2], re.MULTILINE
    )
    return [(bound, setting) for bound, settings in rows for setting in re.findall(r"`(\w+)`", settings)]


def test_the_limits_table_has_the_settings_that_bound_the_service() -> None:
    assert len(bounds()) >= 12


@pytest.mark.parametrize(("bound", "setting"), bounds())
def test_a_bound_that_a_setting_moves_is_its_default(bound: str, setting: str) -> None:
    # The timeout's default goes on: "10 s, or the evaluation interval if that is shorter".
    assert default_text(SETTINGS[setting]).partition(",")[0] in bound


def test_the_record_is_the_one_that_the_law_writes() -> None:
    pool = policy(hpa_tolerance=0.1, replica_hourly_cost=2.5, max_hourly_cost=40.0)
    loads = [36.0] * 21 + [43.0] * 3
    seen = [observation(NEW_YEAR_2026 + tick, load, 10) for tick, load in enumerate(loads)]
    record = decision_record(PoolKey("serving", "vllm", "5d1f0c2a"), pool.locator, run(pool, seen)[-1])

    (shown,) = re.findall(r"^```json\n(.*?)^```$", page("operating/why.md"), re.MULTILINE | re.DOTALL)
    assert json.loads(shown) == record


def stuck() -> Decision:
    grown = [observation(tick, 60, 8) for tick in range(4)]
    starting = [observation(tick, 80, 15, running=32.0, waiting=48.0, serving=8.0, ready=8.0) for tick in range(4, 54)]
    return run(policy(), [*grown, *starting])[-1]


def unbalanced() -> Decision:
    loads = {"x2zq5": (4.0, 12.0), "b8k2w": (2.0, 0.0), "m4r9t": (1.0, 0.0)}
    replicas = tuple(ReplicaLoad(f"vllm-7d4b9c5f6d-{name}", *load) for name, load in loads.items())
    return run(policy(), [observation(0, 19, 3, replicas=replicas)])[-1]


QUOTED = [
    ("7 replicas of 15 have been starting for 12 min 15 s, longer than coldStartTimeoutSeconds 10 min", stuck),
    (
        "19 cannot be reached, 20 stay until 18 or fewer are needed",
        lambda: run(policy(hpa_tolerance=0.1), [observation(tick, 57, 20) for tick in range(20)])[-1],
    ),
    (
        "36 replicas are needed, and limits allow 8; a request that comes now waits about 1 min 49 s",
        lambda: run(policy(max_replicas=8), [observation(tick, 141, 8, ttft_samples=60.0) for tick in range(5)])[-1],
    ),
    ("vllm-7d4b9c5f6d-x2zq5 has 16 requests, the mean is 6.33 and others have room", unbalanced),
    (
        "3 replicas would do now, by saturation for 16 of 20 windows",
        lambda: run(policy(), [observation(tick, 60 if tick < 4 else 4, 8) for tick in range(20)])[-1],
    ),
]


@pytest.mark.parametrize(("sentence", "decide"), QUOTED)
def test_a_quoted_sentence_is_one_that_the_law_writes(sentence: str, decide: Callable[[], Decision]) -> None:
    assert f"`{sentence}`" in " ".join(page("operating/why.md").split())
    assert sentence in narrate(decide())


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_code_is_said_what_to_do_about(code: ReasonCode) -> None:
    section = page("operating/why.md").partition("## Reason codes")[2].partition("## ")[0]
    assert section.count(f"`{code.value}`") >= 1


def metric_names() -> list[str]:
    telemetry = Telemetry()
    own = re.findall(r"^# TYPE (vllm_scaler_\S+) \S+$", telemetry.exposition()[0].decode(), re.MULTILINE)
    pools = [f"{pool_metrics.PREFIX}_{name}" for name in pool_metrics._FAMILIES]
    return sorted({name for name in (*own, *pools) if not name.endswith("_created")})


@pytest.mark.parametrize("metric", metric_names())
def test_every_metric_is_explained(metric: str) -> None:
    assert f"`{metric}`" in page("operating/running.md")


@pytest.mark.parametrize("name", HEALTH_NAMES)
def test_every_name_of_the_grpc_health_service_is_given(name: str) -> None:
    assert (f"`{name}`" if name else '""') in page("operating/running.md")


@pytest.mark.parametrize("series", WORKLOAD_SERIES.values(), ids=lambda series: series.label)
def test_the_series_of_every_kind_of_workload_are_given(series: Any) -> None:
    text = page("operating/prometheus.md")
    assert [name for name in (series.requested, series.ready, series.total, series.updated) if name not in text] == []


def settings_examples() -> list[str]:
    pages = (page("operating/prometheus.md"), page("operating/running.md"))
    blocks = [block for text in pages for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    return [block for block in blocks if block.startswith("prometheus_url")]


def test_there_are_examples_of_settings() -> None:
    assert len(settings_examples()) == 3


@pytest.mark.parametrize("example", settings_examples())
def test_an_example_of_settings_is_one_that_the_service_takes(example: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(example)
    assert load_settings({}, {}, read_settings_file(file)).warnings == ()


@pytest.mark.parametrize(
    "limit",
    [
        f"{BACKEND_LIMIT} besides the default",
        f"{HEADER_LIMIT} headers of {HEADER_VALUE_LENGTH} characters and {LABEL_LIMIT} external labels",
        f"{MAX_SECRET_BYTES // 1024} KiB, {MAX_FILE_BYTES >> 20} MiB",
    ],
)
def test_the_fixed_limits_of_backends_are_given(limit: str) -> None:
    assert limit in page("architecture.md").partition("## Limits")[2]


def test_the_config_for_leader_worker_sets_makes_the_series_that_are_read() -> None:
    text = page("operating/prometheus.md")
    prefix = re.findall(r"metricNamePrefix: (\S+)", text)[0]
    made = {f"{prefix}_{name}" for name in re.findall(r"^ +- name: (\S+_replicas)$", text, re.MULTILINE)}
    series = next(series for kind, series in WORKLOAD_SERIES.items() if kind == "leaderWorkerSet")
    assert made == {series.requested, series.ready, series.total, series.updated}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_is_described_as_it_describes_itself(name: str) -> None:
    assert f"| `{name}` | {WORKLOADS[name].summary} |" in page("operating/simulate.md")


@pytest.mark.parametrize("parameter", [each for each in simulate.params if each.name not in ("seed", "help")])
def test_every_option_of_a_simulation_is_explained(parameter: click.Parameter) -> None:
    assert parameter.opts[0] in page("operating/simulate.md")


def test_the_scaled_object_of_the_readme_can_be_simulated(tmp_path: Path) -> None:
    file = tmp_path / "scaled-object.yaml"
    (example,) = re.findall(r"^ +```yaml\n(.*?)^ +```$", page("../README.md"), re.MULTILINE | re.DOTALL)
    file.write_text(textwrap.dedent(example))
    found = read_scaled_object(file)

    assert (found.namespace, found.name, found.hpa.max_replicas) == ("serving", "vllm-llama", 20)
    assert parse_trigger(found.namespace, found.name, found.metadata, tick_s=15.0).warnings == ()
