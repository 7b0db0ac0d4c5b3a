"""Naive Bayes from one private release of sufficient statistics."""
