"""The law over recorded history: what a policy would have asked for, against what was run. Computes, reads nothing."""
