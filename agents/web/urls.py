"""The app's addresses."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
