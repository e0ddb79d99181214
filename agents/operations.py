"""What a company's own program calls: launch a run, decide a request, set a workspace up.

Each call is one transaction with its change and its event. The time is passed as `at`.
"""

from agents.core.decisions import Decision
from agents.people.workspaces import add_member, ensure_demo_workspace
from agents.publishing.versions import publish_policy
from agents.requests.deciding import decide
from agents.runs.launching import LaunchOptions, launch
from agents.shell.refusal import Refused
