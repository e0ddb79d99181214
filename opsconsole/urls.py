"""Where the pages are: all of them belong to the app."""

from django.urls import include, path

urlpatterns = [path("", include("agents.web.urls"))]
