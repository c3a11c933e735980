"""A web service on FastAPI: submit, status, results as they end, cancel."""
