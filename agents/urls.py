"""The app's addresses: nouns, with the verb last."""

from django.urls import URLPattern, path

from agents.audit import pages as audit
from agents.audit import pages as case
from agents.external import keys as agents
from agents.notifications import pages as notifications
from agents.notifications.channels import channels
from agents.overview import health, search, team
from agents.overview import pages as overview
from agents.overview import search as subjects
from agents.people import member_pages, sign_in
from agents.people import member_pages as invitations
from agents.people import sign_in as second_factor
from agents.publishing import draft_pages, trial_pages
from agents.publishing import pages as policy
from agents.requests import bulk
from agents.requests import pages as requests
from agents.runs import launch_page
from agents.runs import pages as runs
from agents.signon import pages as signon

urlpatterns: list[URLPattern] = [
    path("", overview.home, name="home"),
    path("try-now/", overview.try_now, name="try-now"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/code/", sign_in.sign_in_code, name="sign-in-code"),
    path("sign-on/", signon.sign_on, name="sign-on"),
    path("members/<int:pk>/link/", signon.member_link, name="member-link"),
    path("sign-on/answer/", signon.sign_on_answer, name="sign-on-answer"),
    path("second-factor/", second_factor.second_factor, name="second-factor"),
    path("second-factor/change/", second_factor.second_factor_change, name="second-factor-change"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("become/<str:name>/", sign_in.become, name="become"),
    path("settings/", sign_in.own_settings, name="settings"),
    path("settings/password/", sign_in.password, name="password"),
    path("theme/", sign_in.theme, name="theme"),
    path("keys/", sign_in.keys, name="keys"),
    path("subjects/", subjects.subjects, name="subjects"),
    path("subjects/<str:desk>/<path:key>/", subjects.subject, name="subject"),
    path("approvals/", requests.approvals, name="approvals"),
    path("approvals/decided/", requests.decided, name="decided"),
    path("approvals/bulk/", bulk.bulk, name="bulk"),
    path("approvals/bulk/reject/", bulk.bulk_reject, name="bulk-reject"),
    path("approvals/bulk/<uuid:token>/", bulk.bulk_result, name="bulk-result"),
    path("approvals/share/", requests.share, name="share"),
    path("approvals/views/save/", requests.save_view, name="save-view"),
    path("approvals/views/<int:pk>/delete/", requests.delete_view, name="delete-view"),
    path("approvals/<int:pk>/", requests.approval, name="approval"),
    path("approvals/<int:pk>/judge/", requests.judge, name="judge"),
    path("approvals/<int:pk>/judge-letter/", requests.judge_letter, name="judge-letter"),
    path("approvals/<int:pk>/claim/", requests.claim, name="claim"),
    path("approvals/<int:pk>/release/", requests.release_claim, name="release-claim"),
    path("approvals/<int:pk>/hand-over/", requests.hand_over, name="hand-over"),
    path("approvals/<int:pk>/snooze/", requests.snooze, name="snooze"),
    path("approvals/<int:pk>/wake/", requests.wake, name="wake"),
    path("approvals/<int:pk>/comment/", requests.comment, name="comment"),
    path("approvals/<int:pk>/decide/", requests.decide, name="decide"),
    path("agents/", agents.agents, name="agents"),
    path("agents/key/", agents.workspace_key, name="workspace-key"),
    path("agents/add/", agents.agent_add, name="agent-add"),
    path("agents/<int:pk>/", agents.agent, name="agent"),
    path("agents/<int:pk>/change/", agents.agent_change, name="agent-change"),
    path("audit/", audit.audit, name="audit"),
    path("audit/verify/", audit.verify, name="verify"),
    path("audit/verify/cancel/", audit.verify_cancel, name="verify-cancel"),
    path("audit/export/", audit.export, name="export"),
    path("audit/bundle/", audit.bundle, name="bundle"),
    path("kill/", runs.kill, name="kill"),
    path("kill/press/", runs.press, name="kill-press"),
    path("kill/release/", runs.release, name="kill-release"),
    path("launch/", launch_page.launch, name="launch"),
    path("members/", member_pages.members, name="members"),
    path("members/invite/", invitations.invitation_send, name="invite"),
    path(
        "members/invitations/<int:pk>/revoke/",
        invitations.invitation_revoke,
        name="invitation-revoke",
    ),
    path("invitations/<str:token>/", invitations.invitation, name="invitation"),
    path("members/second-factor/", member_pages.require_factor, name="require-factor"),
    path("members/groups/", member_pages.group_change, name="group-change"),
    path("members/teams/add/", member_pages.team_add, name="team-add"),
    path("members/<int:pk>/", member_pages.member, name="member"),
    path("members/<int:pk>/change/", member_pages.member_change, name="member-change"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/prefer/", notifications.prefer, name="notifications-prefer"),
    path("notifications/log/", notifications.deliveries, name="deliveries"),
    *(pattern for channel in channels() for pattern in channel.urls),
    path("policy/", policy.policy, name="policy"),
    path("policy/draft/", draft_pages.draft_begin, name="policy-draft-begin"),
    path("policy/drafts/<int:pk>/", draft_pages.draft, name="policy-draft"),
    path("policy/drafts/<int:pk>/change/", draft_pages.draft_change, name="policy-draft-change"),
    path("policy/drafts/<int:pk>/try/", draft_pages.try_one, name="policy-draft-try"),
    path("policy/drafts/tried/<int:pk>/", trial_pages.trial, name="policy-trial"),
    path("policy/drafts/tried/<int:pk>/<uuid:run>/", trial_pages.walk_run, name="policy-walk"),
    path("policy/drafts/tried/<int:pk>/cancel/", trial_pages.cancel, name="policy-trial-cancel"),
    path("search/", search.search, name="search"),
    path("team/", team.team, name="team"),
    path("team/figures.csv", team.team_csv, name="team-csv"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<uuid:pk>/", runs.run_detail, name="run"),
    path("runs/<uuid:pk>/result.json", runs.run_json, name="run-json"),
    path("runs/<uuid:pk>/steps/<int:number>/", runs.run_turn, name="run-turn"),
    path("runs/<uuid:pk>/case/", case.case, name="case"),
    path("runs/<uuid:pk>/case/proof/", case.case_proof, name="case-proof"),
    path("runs/<uuid:pk>/again/", runs.run_again, name="run-again"),
    path("runs/<uuid:pk>/ask-on/", runs.run_ask_on, name="run-ask-on"),
    path("runs/<uuid:pk>/cancel/", runs.cancel, name="cancel"),
    path("runs/<uuid:pk>/settle/", requests.settle_call, name="settle-call"),
]
