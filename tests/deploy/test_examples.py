"""Every example is one that KEDA and the scaler take, and agrees with itself and with what its comments say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from scaler.config.trigger import Trigger, parse_trigger
from scaler.units import parse_duration_s
from tests.conftest import tool
from tests.manifests import KEDA_CRDS, ROOT, Manifest, is_built_in, one, problems, read, render, run

EXAMPLES = ROOT / "deploy" / "examples"
SCRAPE = EXAMPLES / "prometheus-scrape.yaml"
FILES = sorted(file for file in EXAMPLES.glob("*.yaml") if file != SCRAPE)
OURS = ("external", "external-push")
TICK_S = 15.0
WORKLOAD_KEYS = {"Deployment": "deployment", "StatefulSet": "statefulSet", "LeaderWorkerSet": "leaderWorkerSet"}


def scaled_objects() -> list[tuple[str, Manifest]]:
    return [
        (f"{file.stem}/{each['metadata']['name']}", each)
        for file in FILES
        for each in read(file)
        if each["kind"] == "ScaledObject"
    ]


SCALED_OBJECTS = scaled_objects()
each_scaled_object = pytest.mark.parametrize(
    "scaled", [each for _, each in SCALED_OBJECTS], ids=[name for name, _ in SCALED_OBJECTS]
)
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def trigger_of(scaled: Manifest) -> Manifest:
    (trigger,) = scaled["spec"]["triggers"]
    assert isinstance(trigger, dict)
    return trigger


def parsed(scaled: Manifest) -> Trigger:
    identity = scaled["metadata"]
    return parse_trigger(identity["namespace"], identity["name"], trigger_of(scaled)["metadata"], tick_s=TICK_S)


def test_there_is_an_example_for_every_kind_of_fleet() -> None:
    assert {file.stem for file in FILES} == {
        "kserve",
        "leader-worker-set",
        "prefill-decode",
        "production-stack",
        "scale-to-zero",
        "several-models",
        "vllm-deployment",
        "vllm-deployment-tls",
    }
    assert len(SCALED_OBJECTS) == len(FILES) + 2


@each_file
def test_kubernetes_takes_every_object_of_its_own(file: Path) -> None:
    assert [found for each in read(file) if is_built_in(each) for found in problems(each)] == []


@pytest.fixture(scope="module")
def keda_schemas() -> dict[str, Draft202012Validator]:
    """KEDA's own schemas by kind, which refuse here what the API server would drop in silence."""
    if not KEDA_CRDS.is_dir():
        pytest.skip(f"KEDA's custom resource definitions are not at {KEDA_CRDS}: set KEDA_CRDS to config/crd/bases")
    definitions = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in KEDA_CRDS.glob("*.yaml")]
    return {
        each["spec"]["names"]["kind"]: Draft202012Validator(
            closed(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        )
        for each in definitions
    }


@each_file
def test_keda_takes_every_object_of_its_own(file: Path, keda_schemas: dict[str, Draft202012Validator]) -> None:
    own = [each for each in read(file) if each["apiVersion"].startswith("keda.sh/")]
    assert own != []
    assert [error.message for each in own for error in keda_schemas[each["kind"]].iter_errors(each)] == []


def test_a_misspelt_field_would_be_found(keda_schemas: dict[str, Draft202012Validator]) -> None:
    scaled = one(read(EXAMPLES / "vllm-deployment.yaml"), "ScaledObject")
    scaled["spec"]["fallback"]["replica"] = scaled["spec"]["fallback"].pop("replicas")
    messages = " ".join(error.message for error in keda_schemas["ScaledObject"].iter_errors(scaled))
    assert "'replica' was unexpected" in messages
    assert "'replicas' is a required property" in messages


def closed(schema: Any) -> Any:
    """Return a schema that refuses fields it does not know."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    # An object that a kind has besides its own fields, such as its metadata, has no properties here.
    if "properties" in schema and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


@each_scaled_object
def test_the_scaler_takes_the_trigger_without_a_warning(scaled: Manifest) -> None:
    trigger = trigger_of(scaled)
    assert trigger["type"] in OURS
    assert trigger["metricType"] == "AverageValue"
    assert [key for key, value in trigger["metadata"].items() if not isinstance(value, str)] == [], "values are text"
    assert parsed(scaled).warnings == ()


@each_scaled_object
def test_the_address_is_that_of_the_chart(scaled: Manifest, helm4: Path) -> None:
    service = one(render(helm4, "defaults"), "Service", "vllm-scaler")
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    assert trigger_of(scaled)["metadata"]["scalerAddress"] == f"{host}:{service['spec']['ports'][0]['port']}"


@each_scaled_object
def test_the_limits_are_those_of_the_scaled_object(scaled: Manifest) -> None:
    spec, policy = scaled["spec"], parsed(scaled).policy
    assert (policy.min_replicas, policy.max_replicas) == (spec["minReplicaCount"], spec["maxReplicaCount"])
    assert max(1, spec["minReplicaCount"]) <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"


@each_scaled_object
def test_the_hpa_damps_no_second_time_and_the_scaler_knows_its_tolerance(scaled: Manifest) -> None:
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior == {key: {"stabilizationWindowSeconds": 0, "tolerance": "0"} for key in ("scaleUp", "scaleDown")}
    assert parsed(scaled).policy.hpa_tolerance == 0
    assert scaled["spec"]["pollingInterval"] == TICK_S


@each_scaled_object
def test_the_trigger_names_the_workload_that_is_scaled(scaled: Manifest) -> None:
    target, metadata = scaled["spec"]["scaleTargetRef"], trigger_of(scaled)["metadata"]
    kind = target.get("kind", "Deployment")
    assert metadata[WORKLOAD_KEYS[kind]] == target["name"]
    assert [key for key in WORKLOAD_KEYS.values() if key in metadata] == [WORKLOAD_KEYS[kind]]


@each_scaled_object
def test_an_authentication_that_is_named_stands_beside_it(scaled: Manifest) -> None:
    reference = trigger_of(scaled).get("authenticationRef")
    if reference is not None:
        objects = read(EXAMPLES / "vllm-deployment-tls.yaml")
        authentication = one(objects, "TriggerAuthentication", reference["name"])
        assert authentication["metadata"]["namespace"] == scaled["metadata"]["namespace"]
        assert {each["parameter"] for each in authentication["spec"]["secretTargetRef"]} == {
            "caCert",
            "tlsClientCert",
            "tlsClientKey",
        }


def container_of(objects: list[Manifest]) -> tuple[Manifest, Manifest] | None:
    """The labels of a workload's pods, and their container, where the example has the workload."""
    for each in objects:
        if each["kind"] == "Deployment":
            template = each["spec"]["template"]
            return template["metadata"]["labels"], template["spec"]["containers"][0]
        if each["kind"] == "InferenceService":
            name = each["metadata"]["name"]
            return {"serving.kserve.io/inferenceservice": name}, each["spec"]["predictor"]["containers"][0]
    return None


WITH_WORKLOAD = [file for file in FILES if container_of(read(file))]


@pytest.mark.parametrize("file", WITH_WORKLOAD, ids=lambda file: file.stem)
def test_the_workload_fits_its_monitor_and_its_trigger(file: Path) -> None:
    objects = read(file)
    labels, container = container_of(objects) or ({}, {})
    monitor, scaled = one(objects, "PodMonitor"), one(objects, "ScaledObject")
    metadata = trigger_of(scaled)["metadata"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (port,) = (port for port in container["ports"] if port["name"] == endpoint["port"])
    flags = dict(word.removeprefix("--").split("=") for word in container["args"])
    assert int(flags["port"]) == port["containerPort"]
    assert metadata["modelName"] == flags.get("served-model-name", container["command"][-1])
    assert int(metadata["slotsPerReplica"]) <= int(flags["max-num-seqs"])


def test_the_start_probe_gives_up_before_a_start_counts_as_stuck() -> None:
    objects = read(EXAMPLES / "vllm-deployment.yaml")
    _, container = container_of(objects) or ({}, {})
    probe = container["startupProbe"]
    minutes = probe["periodSeconds"] * probe["failureThreshold"] / 60
    text = (EXAMPLES / "vllm-deployment.yaml").read_text(encoding="utf-8")
    assert minutes == 10
    assert "Ten minutes for loading the model" in text
    timeout = trigger_of(one(objects, "ScaledObject"))["metadata"]["coldStartTimeoutSeconds"]
    assert parse_duration_s(timeout) > minutes * 60


def test_requests_have_the_minute_that_is_promised_to_end() -> None:
    (pod,) = (
        e["spec"]["template"]["spec"] for e in read(EXAMPLES / "vllm-deployment.yaml") if e["kind"] == "Deployment"
    )
    sleep = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert sleep == 60
    assert pod["terminationGracePeriodSeconds"] > sleep


@each_file
def test_a_monitor_sets_the_labels_by_itself_and_is_of_the_scaled_namespace(file: Path) -> None:
    objects = read(file)
    namespaces = {each["metadata"]["namespace"] for each in objects}
    assert namespaces == {"serving"}
    for each in objects:
        if each["kind"] == "PodMonitor":
            (endpoint,) = each["spec"]["podMetricsEndpoints"]
            assert endpoint.get("honorLabels", False) is False
            assert endpoint["interval"] == "15s"
            assert endpoint["path"] == "/metrics"


def test_leaders_alone_are_scraped_of_a_leader_worker_set() -> None:
    monitor = one(read(EXAMPLES / "leader-worker-set.yaml"), "PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_prefill_and_decode_are_told_apart_by_their_workloads() -> None:
    pools = {each["metadata"]["name"]: parsed(each).policy for each in read(EXAMPLES / "prefill-decode.yaml")[1:]}
    locators = {name: policy.locator for name, policy in pools.items()}
    assert locators["vllm-prefill"].model_name == locators["vllm-decode"].model_name
    assert locators["vllm-prefill"].workload != locators["vllm-decode"].workload
    signals = {name: {signal.name for signal in policy.signals} for name, policy in pools.items()}
    assert signals["vllm-prefill"] >= {"waiting", "prompt_tokens", "ttft_p95"}
    assert signals["vllm-decode"] >= {"kv_cache", "saturation", "itl_p95"}
    assert "ttft_p95" not in signals["vllm-decode"]


def test_a_pool_at_zero_is_woken_over_the_push_stream() -> None:
    scaled = one(read(EXAMPLES / "scale-to-zero.yaml"), "ScaledObject")
    assert trigger_of(scaled)["type"] == "external-push"
    assert scaled["spec"]["minReplicaCount"] == 0
    assert scaled["spec"]["fallback"]["replicas"] > 0


def test_the_example_with_tls_scales_as_the_one_without() -> None:
    plain, tls = (
        one(read(EXAMPLES / f"{name}.yaml"), "ScaledObject") for name in ("vllm-deployment", "vllm-deployment-tls")
    )
    assert parsed(plain).policy == parsed(tls).policy


def test_what_the_budget_pays_for_is_the_maximum() -> None:
    costed = [each for _, each in SCALED_OBJECTS if "maxHourlyCost" in trigger_of(each)["metadata"]]
    assert len(costed) == 2
    assert [each for each in costed if parsed(each).policy.affordable_replicas != each["spec"]["maxReplicaCount"]] == []


def test_a_spare_group_waits_as_long_as_is_said() -> None:
    text = (EXAMPLES / "leader-worker-set.yaml").read_text(encoding="utf-8")
    (minutes,) = re.findall(r"(\d+) min of 15 s ticks", text)
    windows = trigger_of(one(read(EXAMPLES / "leader-worker-set.yaml"), "ScaledObject"))["metadata"]["scaleDownWindows"]
    assert int(windows) * TICK_S / 60 == int(minutes)


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load(SCRAPE.read_text(encoding="utf-8"))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    targets = {relabeling.get("target_label") for relabeling in jobs["vllm"]["relabel_configs"]}
    assert targets >= {"namespace", "pod"}
    assert "honor_labels" not in jobs["vllm"]
    assert jobs["kube-state-metrics"]["honor_labels"] is True
    assert jobs["vllm-scaler"]["honor_labels"] is True

    # Debian's Prometheus is built without the discovery of Kubernetes.
    roles = {name: job.pop("kubernetes_sd_configs")[0]["role"] for name, job in jobs.items() if name.startswith("vllm")}
    assert roles == {"vllm": "pod", "vllm-scaler": "endpoints"}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    result = run(tool("promtool"), "check", "config", "--syntax-only", str(file))
    assert result.returncode == 0, result.stdout + result.stderr
