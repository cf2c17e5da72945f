"""The documentation hangs together: links lead somewhere, examples can be read, and names are those of the code."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from scaler.adapters import pool_metrics
from scaler.adapters.telemetry import Telemetry
from scaler.config.trigger import parse_trigger

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
METRIC = re.compile(r"\bvllm_scaler_[a-z_]+")
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in some languages, without what they are indented by."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, of, body in found if of in languages]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(anchor)
    return frozenset(found)


def links(page: Path) -> Iterator[str]:
    for inline, reference in LINK.findall(prose(page)):
        target = inline or reference
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def link_problem(page: Path, target: str) -> str | None:
    name, _, anchor = target.partition("#")
    there = (page.parent / name).resolve() if name else page
    if not there.exists():
        return f"{target}: there is no such file"
    if anchor and anchor not in anchors(there):
        return f"{target}: there is no such heading"
    return None


@cache
def exported_metrics() -> frozenset[str]:
    """Every metric of the service, by the names that a scrape shows."""
    families = re.findall(r"^# TYPE (\S+) (\S+)$", Telemetry().exposition()[0].decode(), re.MULTILINE)
    names = {f"{pool_metrics.PREFIX}_{name}" for name in pool_metrics._FAMILIES}
    for name, kind in families:
        names |= {f"{name}{part}" for part in HISTOGRAM_PARTS} if kind == "histogram" else set()
        names.add(name)
    return frozenset(name for name in names if name.startswith(pool_metrics.PREFIX))


def triggers(page: Path) -> list[dict[str, Any]]:
    """The metadata of every trigger of ours in the page's examples."""
    found: list[dict[str, Any]] = []
    parts: list[Any] = [document for block in blocks(page, "yaml") for document in yaml.safe_load_all(block)]
    while parts:
        match parts.pop():
            case list() as items:
                parts += items
            case dict() as mapping:
                metadata = mapping.get("metadata")
                if isinstance(metadata, dict) and "scalerAddress" in metadata:
                    found.append(metadata)
                parts += mapping.values()
    return found


def test_there_are_pages_links_and_triggers_to_look_at() -> None:
    assert len(PAGES) > 10
    assert sum(len(list(links(page))) for page in PAGES) > 50
    assert sum(len(triggers(page)) for page in PAGES) >= 2


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    problems = [problem for target in links(page) if (problem := link_problem(page, target)) is not None]
    assert problems == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_of_yaml_can_be_read(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert list(yaml.safe_load_all(block)) not in ([], [None])


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_of_promql_can_be_read(page: Path) -> None:
    for block in blocks(page, "promql"):
        promql_parser.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_metric_that_is_named_is_exported(page: Path) -> None:
    named = set(METRIC.findall(page.read_text(encoding="utf-8")))
    assert named - exported_metrics() == set()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_trigger_in_an_example_is_one_that_the_scaler_takes_without_a_warning(page: Path) -> None:
    for metadata in triggers(page):
        assert [key for key, value in metadata.items() if not isinstance(value, str)] == [], "quote it: values are text"
        assert parse_trigger("serving", "vllm", metadata, tick_s=15.0).warnings == ()


def test_every_page_is_on_the_map() -> None:
    maps = [ROOT / "docs" / "README.md", ROOT / "docs" / "runbooks" / "README.md"]
    mapped = {(page.parent / target.partition("#")[0]).resolve() for page in maps for target in links(page)}
    assert {page for page in PAGES if page not in (maps[0], ROOT / "README.md")} - mapped == set()
