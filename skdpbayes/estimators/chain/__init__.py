"""Private chains on linear classifiers; their plan and run serve other models too."""
