"""The import of customers, under the path that programs of others import."""

from agents.desks.refunds.books import import_customers as import_customers
