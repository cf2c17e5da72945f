"""Pools read from several real backends at once: two Prometheus, and VictoriaMetrics in Prometheus' place."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import Backend, MetricsReader, only
from scaler.model import Absent, LabelMatcher, Observation, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import LabelNames
from tests.prometheus_rows import has_note
from tests.scraped_pages import POD, Target, always, capture, engine_pages, state_pages
from tests.scraped_prometheus import Scraped, scraped_prometheus
from tests.victoria_metrics import start_victoria_metrics

VLLM = Workload(WorkloadKind.DEPLOYMENT, "vllm")
LABELS = {"namespace": "serving", "pod": POD, "instance": "10.0.0.1:8000"}
DEPTH = {"depth": "sum by (namespace) (vllm:num_requests_waiting)"}


def deployment(replicas: int) -> str:
    labels = '{namespace="serving",deployment="vllm"}'
    names = ("spec_replicas", "status_replicas", "status_replicas_ready", "status_replicas_updated")
    return "".join(f"kube_deployment_{name}{labels} {replicas}\n" for name in names)


def cluster(capture_name: str, replicas: int, **external: str) -> list[Target]:
    """A cluster's pool ``vllm`` in the namespace ``serving``, and its kube-state-metrics."""
    return [
        Target({**LABELS, **external}, always(capture(capture_name))),
        Target({"instance": "10.0.0.2:8080", **external}, always(deployment(replicas))),
    ]


@contextmanager
def client(url: str) -> Iterator[Prometheus]:
    made = Prometheus(url, timeout_s=30.0, concurrency=4, max_response_bytes=64 << 20)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """One Prometheus for a cluster under load, one for the same in another cluster, and one that has both."""
    folder = tmp_path_factory.mktemp("backends")
    eu, us = cluster("under_load", 3), cluster("dp2", 2)
    both = cluster("under_load", 3, cluster="eu-1") + cluster("dp2", 2, cluster="us-1")
    with ExitStack() as stack:
        made = [
            stack.enter_context(scraped_prometheus(targets, folder / str(number)))
            for number, targets in enumerate((eu, us, both))
        ]
        yield made[0].url, made[1].url, made[2].url


@pytest.fixture
async def backends(urls: tuple[str, str, str]) -> AsyncIterator[dict[str, Backend]]:
    async with AsyncExitStack() as stack:
        eu, us, both = (stack.enter_context(client(url)) for url in urls)
        dead = stack.enter_context(client("http://127.0.0.1:1"))
        yield {
            "default": Backend(eu),
            "us": Backend(us),
            "both": Backend(both),
            "both-eu": Backend(both, (LabelMatcher("cluster", "=", "eu-1"),)),
            "both-us": Backend(both, (LabelMatcher("cluster", "=", "us-1"),)),
            "dead": Backend(dead),
        }


async def read(backends: dict[str, Backend], *names: str) -> list[Observation]:
    """Read the same pool from several backends at once."""
    locators = [
        PoolLocator("serving", None, VLLM, rate_window_s=30.0, extras=("custom:depth",), backend=name) for name in names
    ]
    pools = {PoolKey("serving", "llama", f"{number:08x}"): locator for number, locator in enumerate(locators)}
    seen = await MetricsReader(backends, LabelNames(), queries=DEPTH).observe(pools, time.time())
    return [seen[key] for key in pools]


def depth(seen: Observation) -> object:
    return seen.extras["custom:depth"].value


async def test_pools_of_one_name_on_two_backends_each_read_their_own(backends: dict[str, Backend]) -> None:
    eu, us = await read(backends, "default", "us")
    assert (eu.running, eu.waiting, eu.requested, depth(eu)) == (4, 16, 3, 16)
    assert (us.running, us.waiting, us.requested, depth(us)) == (8, 16, 2, 16)


async def test_external_labels_take_one_cluster_out_of_a_store_of_several(backends: dict[str, Backend]) -> None:
    apart = await read(backends, "default", "us")
    narrowed = await read(backends, "both-eu", "both-us")
    assert [(one.running, one.requested, depth(one)) for one in narrowed] == [
        (one.running, one.requested, depth(one)) for one in apart
    ]
    (mixed,) = await read(backends, "both")
    assert depth(mixed) == 32


async def test_a_dead_backend_takes_nothing_from_the_pools_of_another(backends: dict[str, Backend]) -> None:
    dead, alive = await read(backends, "dead", "default")
    assert (alive.running, alive.requested, alive.notes) == (4, 3, ())
    assert (dead.running, dead.requested) == (Absent.MISSING, Absent.MISSING)
    assert has_note(dead, "cannot be asked: connection refused")


@pytest.fixture(scope="module")
def victoria_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    pages = {key: page for key, page in engine_pages().items() if key[0] in {"idle", "load", "dp"}}
    targets = [
        Target({"namespace": namespace, "pod": pod, "instance": f"10.0.0.{number}:8000"}, page)
        for number, ((namespace, pod), page) in enumerate(pages.items())
    ]
    targets += [Target({"instance": instance}, page) for instance, page in state_pages().items()]
    with scraped_prometheus(targets, tmp_path_factory.mktemp("victoria"), start_victoria_metrics) as running:
        yield running


@pytest.mark.parametrize(
    ("namespace", "running", "waiting", "kv_usage"),
    [
        ("idle", 0, 0, 0.0),
        ("load", 4, 16, 0.0019540791402051783),
        ("dp", 8, 16, 0.005862237420615535),
    ],
)
async def test_victoria_metrics_is_read_number_by_number_as_prometheus_is(
    victoria_metrics: Scraped, *, namespace: str, running: float, waiting: float, kv_usage: float
) -> None:
    key = PoolKey(namespace, "llama", "0badcafe")
    # Within 7 scrapes: it counts what a series has when it first appears as having happened then.
    pool = PoolLocator(namespace, None, VLLM, rate_window_s=4.0)
    narrow = (LabelMatcher("pod", "=", POD),)
    with client(victoria_metrics.url) as prometheus:
        seen = (await MetricsReader(only(prometheus), LabelNames()).observe({key: pool}, time.time()))[key]
        pods = {"default": Backend(prometheus, narrow)}
        narrowed = (await MetricsReader(pods, LabelNames()).observe({key: pool}, time.time()))[key]
    assert (seen.running, seen.waiting, seen.serving) == (running, waiting, 1)
    # It keeps about 15 digits of a number.
    assert seen.kv_usage_ratios == pytest.approx((kv_usage,), rel=1e-12)
    assert (seen.ttft_p95_s, seen.ttft_samples) == (Absent.NO_TRAFFIC, 0)
    assert (seen.generation_tokens_per_s, seen.preemptions) == (0, 0)
    assert isinstance(seen.newest_sample_age_s, float)
    assert 0 <= seen.newest_sample_age_s < 10
    assert (narrowed.running, narrowed.requested) == (running, Absent.MISSING)
    if namespace == "load":
        assert (seen.requested, seen.ready, seen.outdated, seen.notes) == (3, 2, 3, ())
