"""One posterior sample: classifiers whose release is a draw of the tempered posterior."""
