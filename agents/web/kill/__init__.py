"""The kill switch page."""
