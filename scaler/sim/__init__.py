"""A simulated vLLM fleet, its traffic, and the HPA that scales it: pure, seeded, in virtual time.

What may live here: models of the world around the scaler. No clock, no network, no asyncio: time is what the caller
says it is, and randomness comes from a seed, so that a run can be repeated exactly.
"""
