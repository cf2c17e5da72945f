"""Code generated from protos/ by ``make proto``; a test compares it with what the generator gives."""
