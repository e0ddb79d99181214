"""Search over pages, subjects, payees, requests and runs."""
