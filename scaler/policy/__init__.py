"""The control law, pure: what was observed goes in, a decision that explains itself comes out."""
