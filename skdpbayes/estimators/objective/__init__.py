"""Objective and output perturbation of logistic regression."""
