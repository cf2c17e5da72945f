"""Write the dashboards as JSON: ``make dashboards``.

They go to grafana/dashboards for people who import them, and the same into the chart for Grafana's sidecar.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.decisions import decisions
from grafana.saturation import saturation

_ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = (
    _ROOT / "grafana" / "dashboards",
    _ROOT / "deploy" / "helm" / "vllm-keda-scaler" / "files" / "dashboards",
)
DASHBOARDS: Final = {"saturation": saturation, "decisions": decisions}


def encoded(board: builders.Dashboard) -> str:
    """Return a dashboard's JSON, with numbers for its panels so that links to them last."""
    built: dict[str, Any] = json.loads(JSONEncoder().encode(board.build()))
    for number, panel in enumerate(built["panels"], start=1):
        panel["id"] = number
    return json.dumps(built, indent=1, sort_keys=True) + "\n"


def files() -> Iterator[tuple[Path, str]]:
    """Yield each file with the text that belongs into it."""
    for name, make in DASHBOARDS.items():
        text = encoded(make())
        for folder in FOLDERS:
            yield folder / f"{name}.json", text


def main() -> None:
    """Write all files."""
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(_ROOT))


if __name__ == "__main__":
    main()
