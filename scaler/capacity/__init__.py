"""What one replica can carry under a joint SLO, from benchmark results. Pure but for the reading of files."""
