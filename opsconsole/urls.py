"""Where the pages are: all of them belong to the app."""

from django.urls import include, path

from opsconsole.denials import denied

urlpatterns = [path("", include("agents.web.urls"))]
handler403 = denied
