"""What is printed once, before the traffic starts: what runs where, how it is set, and what to try."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from google.protobuf.json_format import MessageToJson

from scaler.demo import scenario
from scaler.demo.prometheus_process import find_tool
from scaler.demo.scenario import Scenario, scaled_object
from scaler.errors import ScalerError
from scaler.protos import externalscaler_pb2 as pb
from scaler.units import format_duration

_SERVICE = "externalscaler.ExternalScaler"
_METRIC = "target-replicas"


@dataclass(frozen=True, slots=True)
class RequestFiles:
    """KEDA's requests as JSON files, for grpcurl."""

    scaled_object_ref: Path
    get_metrics: Path


def write_requests(folder: Path, metadata: Mapping[str, str]) -> RequestFiles:
    """Write the requests that KEDA would send, so that the lines to try are short."""
    ref = pb.ScaledObjectRef(name=scenario.SCALED_OBJECT, namespace=scenario.NAMESPACE, scalerMetadata=metadata)
    files = RequestFiles(folder / "scaled-object-ref.json", folder / "get-metrics.json")
    files.scaled_object_ref.write_text(MessageToJson(ref), encoding="utf-8")
    request = pb.GetMetricsRequest(scaledObjectRef=ref, metricName=_METRIC)
    files.get_metrics.write_text(MessageToJson(request), encoding="utf-8")
    return files


def introduction(
    plan: Scenario,
    *,
    scaler_address: str,
    scaler_url: str,
    prometheus_url: str,
    fleet_url: str,
    requests: RequestFiles,
    folder: Path,
    keep: bool,
) -> str:
    """Write the introduction.

    Args:
        plan: What is played.
        scaler_address: Host and port of the scaler's gRPC.
        scaler_url: Its HTTP.
        prometheus_url: Prometheus' HTTP.
        fleet_url: The fleet's pages.
        requests: KEDA's requests.
        folder: Where logs and samples are.
        keep: Whether the folder stays.
    """
    grpcurl = f"{_grpcurl()} -plaintext"
    fate = "it stays" if keep else "it goes at the end, --keep keeps it"
    length = format_duration(plan.profile.duration_s)
    return f"""
{length} of simulated traffic; the scaler, its gRPC, Prometheus and the scrapes are real.

  scaler       {scaler_address} (gRPC), {scaler_url}/metrics
  Prometheus   {prometheus_url}
  fleet        {fleet_url}/targets
  folder       {folder} ({fate}),
               with scaler.log (every decision with its reasons) and prometheus/prometheus.log

The ScaledObject, everything some ten times quicker than in production:

{indent(scaled_object(plan, scaler_address=scaler_address), "  ")}
Ask the scaler yourself while it runs, as KEDA does:

  {grpcurl} {scaler_address} list
  {grpcurl} -d @ {scaler_address} {_SERVICE}/GetMetrics < {requests.get_metrics}
  {grpcurl} -d @ {scaler_address} {_SERVICE}/IsActive < {requests.scaled_object_ref}
  curl -s {scaler_url}/metrics | grep vllm_scaler_

Waiting for the first scrapes ...
"""


def _grpcurl() -> str:
    if shutil.which("grpcurl"):
        return "grpcurl"
    try:
        return str(find_tool("grpcurl"))
    except ScalerError:
        return "grpcurl"
