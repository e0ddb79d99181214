"""Views: one module a page."""
