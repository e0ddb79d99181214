"""The project's addresses: all pages belong to the app."""

from django.urls import include, path

from opsconsole.denials import denied
from opsconsole.failures import failed

urlpatterns = [path("", include("agents.web.urls"))]
handler403 = denied
handler500 = failed
