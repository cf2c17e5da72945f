"""The service at work on one machine: a simulated fleet on real HTTP, a real Prometheus, real gRPC, and a live view.

What may live here: stand-ins for what a cluster has (pods, kube-state-metrics, KEDA and its HPA), and the view of
them. The service itself is the one that runs in production; nothing in it knows that this is a demo.
"""
