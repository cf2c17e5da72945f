"""The chart, rendered by helm 3 and 4 with every case of values: valid for Kubernetes, and as the service needs it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import scaler
from scaler.config.sources import load_settings, read_settings_file
from scaler.service.grpc_server import HEALTH_NAMES
from tests.conftest import tool
from tests.manifests import CASES, CHART, Manifest, is_built_in, one, problems, render, run


def pod(objects: tuple[Manifest, ...]) -> Manifest:
    spec: Manifest = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: tuple[Manifest, ...]) -> Manifest:
    (only,) = pod(objects)["containers"]
    assert isinstance(only, dict)
    return only


def flags(objects: tuple[Manifest, ...]) -> dict[str, str]:
    command, *words = container(objects)["args"]
    assert command == "serve"
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name.replace("-", "_"): value for name, _, value in pairs}


def test_the_chart_installs_the_version_that_it_lies_beside() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert described["appVersion"] == scaler.__version__


def test_the_linter_has_nothing_to_say(helm: Path, case: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(dict(CASES[case])))
    result = run(helm, "lint", "--strict", "--namespace", "keda", str(CHART), "--values", str(values))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stdout


def test_both_versions_of_helm_render_the_same(case: str) -> None:
    assert render(tool("helm3"), case) == render(tool("helm4"), case)


def test_the_oldest_and_the_newest_kubernetes_take_every_object(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    assert len(objects) >= 4
    assert [found for each in objects if is_built_in(each) for found in problems(each)] == []


def test_a_misspelt_field_would_be_found(helm4: Path) -> None:
    deployment = json.loads(json.dumps(one(render(helm4, "defaults"), "Deployment")))
    deployment["spec"]["template"]["spec"]["serviceAcountName"] = "vllm-scaler"
    assert len(problems(deployment)) == 2


def test_no_two_objects_have_one_name(helm4: Path, case: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in render(helm4, case)
    ]
    assert len(names) == len(set(names))


def test_every_selector_finds_the_pods(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    deployment = one(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = {"Deployment": deployment["spec"]["selector"]["matchLabels"]}
    for each in objects:
        if each["kind"] == "Service":
            selectors[each["metadata"]["name"]] = each["spec"]["selector"]
        if each["kind"] == "NetworkPolicy":
            selectors["NetworkPolicy"] = each["spec"]["podSelector"]["matchLabels"]
        if each["kind"] in {"PodDisruptionBudget", "PodMonitor"}:
            selectors[each["kind"]] = each["spec"]["selector"]["matchLabels"]
    assert len(selectors) >= 3
    assert [name for name, selector in selectors.items() if not selector.items() <= labels or not selector] == []


def test_every_port_that_is_named_is_one_of_the_container(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    ports = {port["name"] for port in container(objects)["ports"]}
    named = {port["targetPort"] for each in objects if each["kind"] == "Service" for port in each["spec"]["ports"]}
    named |= {
        probe["port"] for name in ("startupProbe", "livenessProbe") for probe in [container(objects)[name]["httpGet"]]
    }
    assert ports == {"grpc", "http"}
    assert named == ports


def test_every_mount_has_its_volume_and_no_volume_is_idle(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    mounts = [mount["name"] for mount in container(objects)["volumeMounts"]]
    assert mounts == [volume["name"] for volume in pod(objects)["volumes"]]


def test_nothing_may_be_done_in_the_container_that_the_service_does_not_do(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    context = pod(objects)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_pod_has_no_rights_and_no_token_unless_it_is_asked_for(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    assert pod(objects)["automountServiceAccountToken"] is (case == "OpenShift")
    assert [each["kind"] for each in objects if each["kind"] in {"Role", "ClusterRole", "RoleBinding"}] == []


def test_the_service_takes_the_flags_and_the_settings_file(helm4: Path, case: str, tmp_path: Path) -> None:
    objects = render(helm4, case)
    given = flags(objects)
    config = Path(given.pop("config"))
    file_values: dict[str, object] = {}
    if case != "settings in a secret":
        (settings,) = (each for each in objects if each["metadata"]["name"].endswith("-settings"))
        file = tmp_path / config.name
        file.write_text(settings["data"][config.name])
        file_values = read_settings_file(file)
    env = {each["name"]: each["value"] for each in container(objects).get("env", [])}
    loaded = load_settings(given, env, file_values)

    assert loaded.warnings == ()
    ports = {port["name"]: port["containerPort"] for port in container(objects)["ports"]}
    assert (loaded.settings.grpc_port, loaded.settings.http_port) == (ports["grpc"], ports["http"])
    expected = CASES[case].get("config", {})
    assert set(expected) <= set(file_values) | {"log_level"}
    grace = pod(objects)["terminationGracePeriodSeconds"]
    assert grace > loaded.settings.shutdown_grace


def test_large_numbers_reach_the_service_as_they_are(helm4: Path) -> None:
    settings = one(render(helm4, "several backends"), "ConfigMap")["data"]["settings.yaml"]
    assert yaml.safe_load(settings)["max_pools"] == 1_000_000


def test_every_file_that_a_setting_names_is_mounted(helm4: Path, case: str) -> None:
    objects = render(helm4, case)
    mounts = [mount["mountPath"] for mount in container(objects)["volumeMounts"]]
    mounts += ["/var/run/secrets/kubernetes.io/serviceaccount"] if pod(objects)["automountServiceAccountToken"] else []
    settings = [each["data"].get("settings.yaml", "") for each in objects if each["kind"] == "ConfigMap"]
    words = " ".join([*container(objects)["args"], *settings]).replace("=", " ").split()
    files = [Path(word) for word in words if word.startswith("/")]
    assert files != []
    assert [str(file) for file in files if str(file.parent) not in mounts] == []


def test_probes_ask_for_what_the_service_answers(helm4: Path, case: str) -> None:
    probes = container(render(helm4, case))
    assert {probes[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe")} == {"/healthz"}
    readiness = probes["readinessProbe"]
    if "tls" in CASES[case]:
        # The kubelet's gRPC probe speaks no TLS.
        assert readiness["httpGet"] == {"path": "/readyz", "port": "http"}
    else:
        assert readiness["grpc"]["service"] in HEALTH_NAMES
        assert readiness["grpc"]["port"] == next(p["containerPort"] for p in probes["ports"] if p["name"] == "grpc")


def test_keda_finds_every_pod_behind_the_address_of_the_examples(helm4: Path) -> None:
    service = one(render(helm4, "defaults"), "Service", "vllm-scaler")
    assert service["metadata"]["namespace"] == "keda"
    assert service["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in service["spec"]["ports"]] == [50051]


def test_two_replicas_are_spread_and_one_may_be_away(helm4: Path) -> None:
    objects = render(helm4, "defaults")
    deployment = one(objects, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    keys = [each["topologyKey"] for each in pod(objects)["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_one_replica_needs_none_of_it(helm4: Path) -> None:
    objects = render(helm4, "one replica")
    assert "topologySpreadConstraints" not in pod(objects)
    assert [each["kind"] for each in objects] == ["ConfigMap", "Service", "Service", "Deployment"]
    assert pod(objects)["serviceAccountName"] == "default"
    assert container(objects)["image"] == "registry.example/platform/vllm-keda-scaler:1.2.3"


def test_changed_settings_start_new_pods(helm4: Path) -> None:
    def checksum(case: str) -> str:
        template = one(render(helm4, case), "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert checksum("defaults") == checksum("TLS")
    assert checksum("defaults") != checksum("several backends")


@pytest.mark.parametrize(("case", "kind"), [("prometheus operator", "ServiceMonitor"), ("pod monitor", "PodMonitor")])
def test_a_monitor_keeps_the_labels_of_the_pools(helm4: Path, case: str, kind: str) -> None:
    objects = render(helm4, case)
    spec = one(objects, kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True
    assert (endpoint["path"], endpoint["port"]) == ("/metrics", "http")
    assert [each["kind"] for each in objects if each["kind"].endswith("Monitor")] == [kind]


def test_the_service_monitor_finds_the_metrics_service_alone(helm4: Path) -> None:
    objects = render(helm4, "prometheus operator")
    monitor = one(objects, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [each for each in objects if each["kind"] == "Service"]
    assert [s["metadata"]["name"] for s in services if wanted <= s["metadata"]["labels"].items()] == [
        "vllm-scaler-metrics"
    ]
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_the_rules_are_those_of_the_file(helm4: Path) -> None:
    rule = one(render(helm4, "prometheus operator"), "PrometheusRule")
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == rules
    assert rule["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_alerts_link_to_where_the_runbooks_are_published(helm4: Path) -> None:
    rules = one(render(helm4, "pod monitor"), "PrometheusRule")["spec"]["groups"]
    urls = [rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"] if "alert" in rule]
    assert urls != []
    assert [url for url in urls if not url.startswith("https://runbooks.example/scaler/")] == []


def test_dashboards_link_there_too(helm4: Path) -> None:
    maps = [each for each in render(helm4, "pod monitor") if "-dashboard-" in each["metadata"]["name"]]
    boards = [json.loads(text) for each in maps for text in each["data"].values()]
    variables = [one for board in boards for one in board["templating"]["list"] if one["name"] == "runbooks"]
    assert [one["query"] for one in variables] == ["https://runbooks.example/scaler"] * 2


def test_every_dashboard_is_a_config_map_that_the_sidecar_looks_for(helm4: Path) -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in (CHART / "files" / "dashboards").glob("*.json")}
    maps = [each for each in render(helm4, "prometheus operator") if "-dashboard-" in each["metadata"]["name"]]
    found: dict[str, str] = {name: text for each in maps for name, text in each["data"].items()}
    assert {name: json.loads(text) for name, text in found.items()} == {n: json.loads(t) for n, t in files.items()}
    for each in maps:
        assert each["metadata"]["namespace"] == "monitoring"
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "vLLM"}
        # The API server refuses a larger object.
        assert len(json.dumps(each)) < 1 << 20


def test_the_policy_lets_keda_and_prometheus_in_and_queries_and_dns_out(helm4: Path) -> None:
    spec = one(render(helm4, "closed"), "NetworkPolicy")["spec"]
    keda, scrapes, _ = spec["ingress"]
    assert keda["ports"] == [{"port": "grpc"}]
    assert keda["from"][0]["podSelector"] == {"matchLabels": {"app": "keda-operator"}}
    assert scrapes["ports"] == [{"port": "http"}]
    dns, queries, more = spec["egress"]
    assert {port["protocol"] for port in dns["ports"]} == {"UDP", "TCP"}
    assert queries == {"to": scrapes["from"], "ports": [{"port": 9090}]}
    assert more["ports"] == [{"port": 443}]


def test_what_is_added_stands_beside_what_is_there(helm4: Path) -> None:
    objects = render(helm4, "everything else")
    deployment = one(objects, "Deployment")
    assert deployment["metadata"]["name"] == "vllm-scaler"
    assert deployment["metadata"]["labels"]["team"] == "serving"
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations.items() >= {"owner": "platform", "sidecar.istio.io/inject": "false"}.items()
    assert container(objects)["image"].endswith(f"@sha256:{'0' * 64}")
    assert container(objects)["args"][-1] == "--log-level=debug"
    more = one(objects, "ConfigMap", "vllm-scaler-more")
    assert more["data"]["at"] == "vllm-scaler.keda.svc.cluster.example:9090"


def test_a_release_of_another_name_has_it_in_every_name(helm4: Path) -> None:
    names = {each["metadata"]["name"] for each in render(helm4, "defaults", release="blue")}
    assert names == {"blue-vllm-scaler", "blue-vllm-scaler-settings", "blue-vllm-scaler-metrics"}


def test_a_long_name_is_cut_to_what_kubernetes_takes(helm4: Path) -> None:
    names = {each["metadata"]["name"] for each in render(helm4, "defaults", release="a" * 53)}
    assert max(map(len, names)) <= 63


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"replicas": 3}, "replicas"),
    ({"config": {"prometheusUrl": "http://prometheus"}}, "prometheusUrl"),
    ({"config": {"prometheus_url": "prometheus:9090"}}, "prometheus_url"),
    ({"config": {"grpc_port": 9090}}, "grpc_port"),
    ({"config": {"log_level": "verbose"}}, "log_level"),
    ({"config": {"backends": {"eu-1": {"ca_file": "/ca.crt"}}}}, "url"),
    ({"config": {"backends": {"eu-1": {"url": "https://mimir", "token": "abc"}}}}, "token"),
    ({"replicaCount": "two"}, "replicaCount"),
    ({"grpc": {"port": 70000}}, "port"),
    ({"image": {"tag": 1.1}}, "tag"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"tls": {"requireClientCertificate": True}}, "tls"),
    ({"serviceMonitor": {"enabled": True, "interval": "often"}}, "interval"),
    ({"secretMounts": [{"name": "tls", "secretName": "other"}]}, "secretMounts"),
    ({"podAnnotations": {"ready": True}}, "podAnnotations"),
    ({"networkPolicy": {"keda": {"podSelectors": {}}}}, "podSelectors"),
    ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "Enable one"),
    ({"grpc": {"port": 8080}}, "grpc.port and metrics.port are both 8080"),
]


@pytest.mark.parametrize(("values", "named"), BAD_VALUES, ids=[str(values) for values, _ in BAD_VALUES])
def test_a_bad_value_is_refused_by_name(helm: Path, values: dict[str, Any], named: str) -> None:
    result = run(helm, "template", "x", str(CHART), "--values", "-", stdin=yaml.safe_dump(values))
    assert result.returncode != 0
    assert named in result.stderr
    assert len(result.stderr) < 500, "it is to be read by a person"


def notes(helm4: Path, case: str) -> str:
    """What helm says after an installation; only helm 4 says it without a cluster."""
    words = ("install", "vllm-scaler", str(CHART), "--dry-run=client", "--namespace", "keda", "--values", "-")
    result = run(helm4, *words, stdin=yaml.safe_dump(dict(CASES[case])))
    assert result.returncode == 0, result.stderr
    return result.stdout.partition("NOTES:\n")[2]


def test_after_the_installation_is_said_what_to_do_next(helm4: Path) -> None:
    text = notes(helm4, "defaults")
    assert "scalerAddress: vllm-scaler.keda.svc.cluster.local:50051" in text
    assert "rollout status deploy/vllm-scaler" in text
    assert "which no registry has" in text
    assert "nothing scrapes the service's own metrics" in text
    assert "authenticationRef" not in text


def test_what_is_closed_and_watched_is_not_warned_of(helm4: Path) -> None:
    text = notes(helm4, "closed")
    assert "whoever reaches port" not in text
    assert "caCert, tlsClientCert and tlsClientKey" in text
    assert "nothing scrapes" not in notes(helm4, "prometheus operator")
    assert "which no registry has" not in notes(helm4, "one replica")
    assert "with one replica every restart is a gap" in notes(helm4, "one replica")
