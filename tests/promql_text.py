"""PromQL taken apart, to see what a query can reach."""

import promql_parser

from scaler.promql import Query


def selectors_of(query: Query) -> list[set[tuple[str, str, str]]]:
    """The label matchers of every vector selector in a query."""
    operators = {
        str(promql_parser.MatchOp.Equal): "=",
        str(promql_parser.MatchOp.NotEqual): "!=",
        str(promql_parser.MatchOp.Re): "=~",
    }
    found: list[set[tuple[str, str, str]]] = []

    def visit(node: object) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append({(item.name, operators[str(item.op)], item.value) for item in node.matchers.matchers})
        for child in ("expr", "lhs", "rhs", "vector_selector"):
            if hasattr(node, child):
                visit(getattr(node, child))
        for argument in getattr(node, "args", ()):
            visit(argument)

    visit(promql_parser.parse(query.expr))
    return found
