"""The edges: Prometheus, the clock, logs and own metrics. Third-party errors end here."""
