"""``vllm-scaler demo``: watch the scaler at work on a simulated fleet."""

import os
import signal
import sys

import click
from rich.console import Console

from scaler.cli.kinds import Duration
from scaler.demo.run import DemoOptions, Outage, run
from scaler.demo.scenario import SHORTEST_S
from scaler.units import format_duration, parse_duration_s

_PORT = click.IntRange(0, 65535)


class _Output(Console):
    """A console whose reader may go away, as in ``vllm-scaler demo | head``."""

    def on_broken_pipe(self) -> None:
        """End the demo in order, as by a signal; an exception in the middle of its loops would not."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGTERM)


class _Outage(click.ParamType[Outage]):
    """START:LENGTH, two durations."""

    name = "start:length"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Outage:
        if isinstance(value, Outage):
            return value
        start, colon, length = str(value).partition(":")
        if not colon:
            self.fail(f"{value!r} is not START:LENGTH, such as 60s:15s", param, ctx)
        try:
            return Outage(parse_duration_s(start), parse_duration_s(length))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option(
    "--duration",
    type=Duration(SHORTEST_S),
    default="180s",
    show_default=True,
    help=f"How long traffic comes; at least {format_duration(SHORTEST_S)}.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same traffic.")
@click.option(
    "--prometheus-outage",
    "outage",
    type=_Outage(),
    metavar="START:LENGTH",
    help="Kill Prometheus START after the beginning, for LENGTH: 60s:15s. The replicas stay.",
)
@click.option("--keep", is_flag=True, help="Keep logs and samples, in a folder in ./demo-output.")
@click.option("--grpc-port", type=_PORT, default=0, show_default="a free one", help="Port of the scaler's gRPC.")
@click.option("--http-port", type=_PORT, default=0, show_default="a free one", help="Port of the scaler's metrics.")
@click.option("--prometheus-port", type=_PORT, default=0, show_default="a free one", help="Port of Prometheus.")
def demo(
    *,
    duration: float,
    seed: int,
    outage: Outage | None,
    keep: bool,
    grpc_port: int,
    http_port: int,
    prometheus_port: int,
) -> None:
    """Watch a simulated fleet of vLLM replicas being scaled.

    The service is the real one: it answers KEDA's calls over gRPC and reads a real Prometheus, which scrapes the fleet.
    Traffic rises, bursts and ebbs. Nothing is left when it ends; Ctrl-C ends it early, with a summary and exit code 0.
    """
    options = DemoOptions(
        duration_s=duration,
        seed=seed,
        grpc_port=grpc_port,
        http_port=http_port,
        prometheus_port=prometheus_port,
        outage=outage,
        keep=keep,
    )
    run(options, _Output(highlight=False))
