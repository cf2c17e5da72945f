from pathlib import Path

from google.protobuf.json_format import Parse

from scaler.demo.intro import introduction, write_requests
from scaler.demo.scenario import scenario
from scaler.protos import externalscaler_pb2 as pb

METADATA = {"scalerAddress": "127.0.0.1:5", "deployment": "vllm-demo"}


def test_the_requests_are_those_of_keda(tmp_path: Path) -> None:
    files = write_requests(tmp_path, METADATA)

    ref = Parse(files.scaled_object_ref.read_text(encoding="utf-8"), pb.ScaledObjectRef())
    assert (ref.namespace, ref.name, dict(ref.scalerMetadata)) == ("demo", "vllm-demo", METADATA)
    request = Parse(files.get_metrics.read_text(encoding="utf-8"), pb.GetMetricsRequest())
    assert (request.scaledObjectRef, request.metricName) == (ref, "target-replicas")


def test_the_introduction_has_the_real_addresses_and_lines_to_try(tmp_path: Path) -> None:
    files = write_requests(tmp_path, METADATA)

    text = introduction(
        scenario(180.0),
        scaler_address="127.0.0.1:5001",
        scaler_url="http://127.0.0.1:5002",
        prometheus_url="http://127.0.0.1:5003",
        fleet_url="http://127.0.0.1:5004",
        requests=files,
        folder=tmp_path,
        keep=False,
    )

    assert "3 min of simulated traffic" in text
    assert f"-d @ 127.0.0.1:5001 externalscaler.ExternalScaler/GetMetrics < {files.get_metrics}" in text
    assert "127.0.0.1:5001 list" in text
    assert "curl -s http://127.0.0.1:5002/metrics" in text
    assert "slotsPerReplica: '8'" in text
    assert f"{tmp_path} (it goes at the end, --keep keeps it)" in text
