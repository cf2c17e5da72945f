"""The running service: pools, the tick loop that decides for them, and the servers that answer from its snapshots."""
