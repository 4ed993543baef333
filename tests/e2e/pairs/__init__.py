"""Small programs that run unchanged on PySpark and on Onefold, and what each of both gives."""
