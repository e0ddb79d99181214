"""The list of runs, and the page of one run."""
