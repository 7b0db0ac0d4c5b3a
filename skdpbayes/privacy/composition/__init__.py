"""How events add up: the distribution of the privacy loss."""
