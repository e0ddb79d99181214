"""Health probes, and the figures that a monitoring system scrapes."""
