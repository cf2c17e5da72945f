"""The house's own tools: what ``make`` runs to set the project up. None of it is installed."""
