"""The runs: their list, and the page of one."""
