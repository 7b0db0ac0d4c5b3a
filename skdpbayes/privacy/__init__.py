"""Privacy arithmetic: numbers in, numbers out; no data array is ever seen here."""
