"""Health probes, and the metrics that a monitoring system scrapes."""
