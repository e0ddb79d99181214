"""The project's addresses: all pages belong to the app."""

from django.urls import include, path

from agents.external.endpoints import api, unknown_address
from opsconsole.middleware import answer_denial, answer_failure

urlpatterns = [
    path("api/v1/", api.urls),
    path("api/<path:rest>", unknown_address),
    path("", include("agents.urls")),
]
handler403 = answer_denial
handler500 = answer_failure
