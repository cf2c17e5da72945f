"""``vllm-scaler``: the commands in one place, and how an error ends each of them."""

import sys
from typing import Final

import click

from scaler import __version__
from scaler.cli.backtest import backtest
from scaler.cli.capacity import capacity
from scaler.cli.demo import demo
from scaler.cli.serve import serve
from scaler.cli.simulate import simulate
from scaler.errors import ConfigError, ScalerError

USAGE_ERROR: Final = 2
"""click's own exit code for a wrong command line; wrong settings are nothing else."""
FAILURE: Final = 1


@click.group()
@click.version_option(__version__, prog_name="vllm-scaler")
def vllm_scaler() -> None:
    """Scale vLLM fleets with KEDA, from their own metrics."""


vllm_scaler.add_command(serve)
vllm_scaler.add_command(demo)
vllm_scaler.add_command(backtest)
vllm_scaler.add_command(capacity)
vllm_scaler.add_command(simulate)


def main() -> None:
    """Run the command line; what is wrong is written to standard error, one problem a line and no traceback."""
    try:
        vllm_scaler(prog_name="vllm-scaler")
    except ConfigError as error:
        _complain(*error.problems)
        sys.exit(USAGE_ERROR)
    except ScalerError as error:
        _complain(str(error))
        sys.exit(FAILURE)


def _complain(*problems: str) -> None:
    for problem in problems:
        click.echo(f"vllm-scaler: {problem}", err=True)
