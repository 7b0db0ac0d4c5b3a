"""Bayesian linear regression from one private release of second moments."""
