"""What the targets of the shared Prometheus serve: pages of a real vLLM, and of what runs around it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

CAPTURES = Path(__file__).parent / "data" / "vllm-captures"
CHANGE = 3
"""The scrape after which a page that changes is another."""
OLD_S = 200.0
"""Age of the samples of a source that has gone."""

POD = "vllm-7d4b9c5f6d-bbbbb"
OTHER_POD = "vllm-7d4b9c5f6d-ccccc"
CANARY_POD = "vllm-canary-6c8f7d9b5-ddddd"
LONG_NAME = "vllm-with-a-name-so-long-that-kubernetes-cuts-it-off"
LONG_POD = "vllm-with-a-name-so-long-that-kubernetes-cuts-it-off-7d4b9" + "bbbbb"

Page: TypeAlias = Callable[[int], str | None]
"""The text for a target's nth scrape, from 1; None is an error of the server."""


@dataclass(frozen=True)
class Target:
    """One scraped address.

    Args:
        labels: What the scrape attaches.
        page: What it serves.
        honoured: Whether its own labels win over those of the scrape.
        twice: Whether two jobs scrape it, as a ServiceMonitor and a PodMonitor would.
    """

    labels: Mapping[str, str] = field(hash=False)
    page: Page
    honoured: bool = True
    twice: bool = False


def capture(name: str) -> str:
    return (CAPTURES / f"vllm_0.32.0_cpu_{name}.prom").read_text()


def always(text: str) -> Page:
    return lambda _: text


def changing(before: str, after: str | None) -> Page:
    return lambda scrape: before if scrape <= CHANGE else after


def aged(text: str) -> str:
    """Give every sample a time of its own, as an exporter does whose source has gone."""
    at_ms = round((time.time() - OLD_S) * 1000)
    return (
        "\n".join(line if line.startswith("#") or not line else f"{line} {at_ms}" for line in text.splitlines()) + "\n"
    )


def without(text: str, *metrics: str) -> str:
    """Leave out what a release of vLLM did not export."""
    return "\n".join(line for line in text.splitlines() if not any(metric in line for metric in metrics)) + "\n"


def as_of_0_14(text: str) -> str:
    """The page as an engine of old would write it."""
    renamed = text.replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    return without(renamed, "vllm:prompt_tokens_by_source", "vllm:admission_rejections")


def router() -> str:
    """What production-stack's router exports, under the engines' name."""
    server = 'server="http://10.0.0.1:8000"'
    return f"vllm:num_requests_running{{{server}}} 100\nvllm:time_to_first_token_seconds_count{{{server}}} 5\n"


def incoming(**requests: int) -> str:
    """What that router counts by model; it has no series of a model before its first request."""
    counts = "".join(
        f'vllm:num_incoming_requests_total{{model="{model.replace("_", "-")}"}} {count}\n'
        for model, count in requests.items()
    )
    return f"router_cpu_usage_percent 3.5\n{counts}"


def queued(prefix: str, count: int, *, model: str, target: str = "", priority: int = 0) -> str:
    """Requests in the flow-control queue of an endpoint picker."""
    labels = f'fairness_id="default",priority="{priority}",inference_pool="pool",model_name="{model}"'
    return f'{prefix}_flow_control_queue_size{{{labels},target_model_name="{target or model}"}} {count}\n'


def new_picker() -> str:
    """An endpoint picker of 0.9 or 0.10, which exports everything under two names."""
    prefixes = ("llm_d_epp", "inference_extension")
    queues = "".join(
        queued(prefix, 2, model="tiny-llama")
        + queued(prefix, 1, model="tiny-llama", priority=-1)
        + queued(prefix, 5, model="chat", target="tiny-qwen")
        + f'{prefix}_flow_control_pool_saturation{{inference_pool="pool",stage="effective"}} 1\n'
        for prefix in prefixes
    )
    return f'{queues}llm_d_epp_ready_endpoints{{name="pool"}} 0\ninference_pool_ready_pods{{name="pool"}} 0\n'


def gpu(pod: str, number: int, *, percent: int, used: int, free: int, namespace: str = "gpus") -> str:
    """One GPU as the DCGM exporter shows it; one that no pod uses has empty labels."""
    labels = (
        f'{{gpu="{number}",UUID="GPU-{number}",modelName="NVIDIA H100",Hostname="node",'
        f'container="vllm",namespace="{namespace}",pod="{pod}"}}'
    )
    return (
        f"DCGM_FI_DEV_GPU_UTIL{labels} {percent}\n"
        f"DCGM_FI_DEV_FB_USED{labels} {used}\n"
        f"DCGM_FI_DEV_FB_FREE{labels} {free}\n"
    )


def deployment(namespace: str, requested: int, ready: int, total: int, updated: int) -> str:
    labels = f'{{namespace="{namespace}",deployment="vllm"}}'
    return (
        f"kube_deployment_spec_replicas{labels} {requested}\n"
        f"kube_deployment_status_replicas_ready{labels} {ready}\n"
        f"kube_deployment_status_replicas{labels} {total}\n"
        f"kube_deployment_status_replicas_updated{labels} {updated}\n"
    )


def engine_pages() -> dict[tuple[str, str], Page]:
    """The pages of all engines, by namespace and pod."""
    idle, load, lora = capture("idle_start"), capture("under_load"), capture("lora_queue_limit")
    ended = capture("smallkv_preempt")
    usage = 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny-llama"} '
    rejections = 'vllm:admission_rejections_total{model_name="tiny-llama",reason='
    assert usage in load
    assert f'{rejections}"max_num_queued_reqs"}} 8.0' in lora
    return {
        ("idle", POD): always(idle),
        ("load", POD): always(load),
        ("dp", POD): always(capture("dp2")),
        ("api-servers", POD): always(capture("api_server_count_2")),
        ("no-stats", POD): always(capture("disable_log_stats")),
        ("lora", POD): always(lora),
        ("advancing", POD): changing(idle, ended),
        ("old-release", POD): changing(as_of_0_14(idle), as_of_0_14(ended)),
        ("two-advancing", POD): changing(idle, ended),
        ("two-advancing", OTHER_POD): changing(idle, load),
        ("quick", POD): changing(idle, load),
        ("restarted", POD): changing(load, idle),
        ("rejecting", POD): changing(
            idle,
            lora.replace(f'{rejections}"max_num_queued_tokens"}} 0.0', f'{rejections}"max_num_queued_tokens"}} 4.0'),
        ),
        ("gone", POD): changing(load, None),
        ("negative", POD): always(load.replace(usage, f"{usage}-")),
        ("old-name", POD): always(load.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")),
        ("two", POD): always(load),
        ("two", CANARY_POD): always(lora),
        ("both", POD): always(load),
        ("both", OTHER_POD): always(lora),
        ("router", POD): always(load),
        ("router", "vllm-router-7d4b9c5f6d-bbbbb"): always(router()),
        ("stale", POD): always(aged(load)),
        ("stale", OTHER_POD): always(lora),
        ("all-stale", POD): always(aged(load)),
        ("long", LONG_POD): always(load),
        ("numbered", "vllm-0"): always(load),
        ("numbered", "vllm-1"): always(lora),
        ("numbered", "vllm-canary-0"): always(load),
        ("", ""): always(load),
    }


def front_pages() -> dict[tuple[str, str], Page]:
    """The pages of routers and endpoint pickers, by namespace and pod."""
    old = 'inference_extension_flow_control_pool_saturation{inference_pool="pool"} 1\n'
    return {
        ("routed", "router"): changing(
            incoming(steady=5, restarted=5, quiet=5), incoming(steady=8, restarted=2, quiet=5, tiny_llama=1)
        ),
        ("gated", "picker"): always(new_picker()),
        ("gated-old", "picker"): always(old + queued("inference_extension", 4, model="tiny-llama")),
        ("gated-off", "picker"): always('llm_d_epp_ready_endpoints{name="pool"} 0\n'),
        ("gated-early", "picker"): always('inference_pool_ready_pods{name="pool"} 0\n'),
    }


def state_pages() -> dict[str, Page]:
    """The pages of kube-state-metrics, by address; one has been gone for some time."""
    labels = '{namespace="numbered",statefulset="vllm"}'
    stateful_set = (
        f"kube_statefulset_replicas{labels} 4\n"
        f"kube_statefulset_status_replicas_ready{labels} 2\n"
        f"kube_statefulset_status_replicas{labels} 4\n"
        f"kube_statefulset_status_replicas_updated{labels} 4\n"
    )
    now = deployment("load", requested=3, ready=2, total=4, updated=1)
    return {
        "ksm-0:8080": always(now + stateful_set),
        "ksm-1:8080": always(now),
        "ksm-gone:8080": always(aged(deployment("load", 9, 9, 9, 9) + deployment("idle", 1, 1, 1, 1))),
    }


def targets() -> list[Target]:
    """Everything that the shared Prometheus scrapes."""
    pods = []
    for number, ((namespace, pod), page) in enumerate((engine_pages() | front_pages()).items()):
        labels = {"namespace": namespace, "pod": pod, "instance": f"10.0.0.{number}:8000"}
        pods.append(Target(labels, page, twice=namespace == "advancing"))
    states = [Target({"instance": instance}, page) for instance, page in state_pages().items()]
    exporter = {"namespace": "gpu-operator", "pod": "dcgm-exporter-bbbbb", "instance": "10.0.1.1:9400"}
    gpus = gpu(POD, 0, percent=100, used=60, free=20) + gpu(POD, 1, percent=60, used=20, free=60)
    gpus += gpu("", 2, percent=99, used=0, free=80, namespace="")
    honoured = gpu(POD, 0, percent=40, used=30, free=10, namespace="gpus-honoured")
    return [
        *pods,
        *states,
        Target(exporter, always(gpus), honoured=False, twice=True),
        Target({**exporter, "instance": "10.0.1.2:9400"}, always(honoured)),
    ]
