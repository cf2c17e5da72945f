"""``vllm-scaler serve``: answer KEDA."""

import click
import structlog

from scaler.adapters import logs
from scaler.cli.options import settings_options
from scaler.config.sources import LoadedSettings
from scaler.service import app


@click.command()
@settings_options
def serve(loaded: LoadedSettings) -> None:
    """Serve KEDA: read vLLM's metrics from Prometheus and answer how many replicas each pool needs.

    Every setting has a flag, an environment variable and a key in the settings file. The flag goes before the variable,
    the variable before the file. Further backends and queries of your own (backends, queries) stand in the file only.
    """
    settings = loaded.settings
    logs.configure(settings.log_level, settings.log_format)
    for warning in loaded.warnings:
        structlog.stdlib.get_logger("scaler.settings").warning("setting ignored", why=warning)
    app.run(settings)
