"""The webhook's serving certificate."""
