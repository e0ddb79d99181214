"""The project's addresses: all pages belong to the app."""

from django.urls import include, path

from opsconsole.denials import answer_denial
from opsconsole.failures import answer_failure

urlpatterns = [path("", include("agents.web.urls"))]
handler403 = answer_denial
handler500 = answer_failure
