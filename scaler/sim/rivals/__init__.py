"""Scaling laws of others, re-stated from their documents, to compare ours with.

What may live here: one class a law, behind ``scaler.sim.law.Law``, with the document that states the rule, its
parameters and their documented defaults. Nothing is tuned to a workload: what a person has to measure once (the slots,
the requests per second of one replica) comes from outside, and all else is the document's default.
"""
