"""What linear models share: the public problem, and posteriors of coefficients."""
