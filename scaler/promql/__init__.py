"""What to ask Prometheus about pools of vLLM replicas, and what its answers mean. Pure: text in, values out.

``plan`` turns pools into few queries, whoever asks them is not of interest here, and ``ReadPlan.observations``
turns the answers into one observation for each pool. Missing is never zero on the way.
"""

from scaler.promql.named import check_named_queries
from scaler.promql.planning import ReadPlan, plan
from scaler.promql.query import Answer, LabelNames, Query, Sample

__all__ = ["Answer", "LabelNames", "Query", "ReadPlan", "Sample", "check_named_queries", "plan"]
