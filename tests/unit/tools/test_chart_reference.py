import json

import pytest

from scaler.config.backends import BACKEND_FIELDS
from scaler.config.server import FIELDS
from tools import chart_reference
from tools.chart_reference import CHART, SET_BY_THE_CHART, Value

SOURCE = """\
# Not a value's comment, for want of dashes.

# -- How many
count: 2
group:
  # A note for whoever reads the file.
  # -- Where it is,
  # in one line
  place: {a: [1, "b"]}
# -- Off if empty
empty: ""
"""


def test_a_value_has_its_path_its_default_and_its_comment_as_one_line() -> None:
    assert list(chart_reference.values(SOURCE)) == [
        Value("count", "2", "How many"),
        Value("group.place", '{"a": [1, "b"]}', "Where it is, in one line"),
        Value("empty", '""', "Off if empty"),
    ]


def test_a_value_that_is_not_explained_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"group\.other has no comment"):
        list(chart_reference.values(SOURCE.replace("# -- Off if empty\nempty", "  other: 1\n# -- Off\nempty")))


def test_the_readme_has_the_table_of_the_values() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    source = (CHART / "values.yaml").read_text(encoding="utf-8")
    assert "| `replicaCount` | `2` |" in chart_reference.table(source)
    assert readme == chart_reference.with_table(readme, source), "run make chart"


def test_the_schema_knows_the_settings_of_the_service() -> None:
    schema = (CHART / "values.schema.json").read_text(encoding="utf-8")
    assert schema == chart_reference.with_settings(schema), "run make chart"
    config = json.loads(schema)["properties"]["config"]["properties"]
    assert config.keys() == FIELDS.keys() - SET_BY_THE_CHART
    assert config["backends"]["additionalProperties"]["properties"].keys() == BACKEND_FIELDS.keys()


def test_the_schema_knows_every_value() -> None:
    """Each path of the table leads somewhere in the schema, which refuses what it does not know."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for value in chart_reference.values((CHART / "values.yaml").read_text(encoding="utf-8")):
        node = schema
        for key in value.path.split("."):
            assert node["additionalProperties"] is False
            assert key in node["properties"], f"values.schema.json does not know {value.path}"
            node = node["properties"][key]
