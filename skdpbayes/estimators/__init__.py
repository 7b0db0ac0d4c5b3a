"""The estimators, one a file: the only place where the other rooms meet."""
