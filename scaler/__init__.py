"""KEDA external scaler for vLLM fleets: from Prometheus metrics to a replica count, explained."""

__version__ = "0.1.0"
