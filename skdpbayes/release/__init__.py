"""Exact numbers and a law of noise in, released numbers out."""
