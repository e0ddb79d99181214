"""Calls that an external agent executes itself: it takes one, gets a permit, reports.

The intent is committed before a permit exists, under the same checks as the console's own calls, so
a call is taken once. A permit that a server verifies is the same each time, and the server accepts
it once. Where no server verifies permits, only the first taker gets the call.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from datetime import datetime
from functools import cache
from importlib.util import find_spec

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from agents.core.json_forms import is_storable
from agents.core.requests import ENDED, TAKE, EffectState, Json
from agents.core.reviews import claims_of, expires_at
from agents.engine.commit import Commit, turn_of
from agents.engine.journal import AWAIT
from agents.engine.kill_switch import switch_against
from agents.engine.redaction import RunBorder, redact_for
from agents.engine.tools.gateway import ask_what_came
from agents.engine.turns.answering import answer_await, settle_reported, wake
from agents.external.calls import ProposedCall
from agents.external.sessions import check_agent, lock_run
from agents.models import AgentCall, Effect, ExternalAgent, Run, Step
from agents.models.runs import ValuesLocked
from agents.sdk.desk import DESKS, tools_at
from agents.shell.refusal import Refused

_NEEDED = "the extra permits is to be installed, and OPSCONSOLE_PERMIT_KEYS to be set"
_ALGORITHM, _KIND = "EdDSA", "permit+jwt"


def take_call(*, agent: ExternalAgent, call_id: int, at: datetime) -> ProposedCall:
    """Take an allowed call, which its agent then executes. Raises Refused, DoesNotExist.

    A worker checks it again, and may refuse it. If permits are verified, taking it twice changes
    nothing.
    """
    with transaction.atomic():
        row, run = _locked_call(agent, call_id)
        check_agent(agent)
        if run.state in ENDED:
            raise Refused("session_ended", "The session has ended: nothing more begins in it.")
        place = f"{turn_of(row.step)}{TAKE}"
        taken = Step.objects.filter(run=run, kind=AWAIT, key__startswith=place)
        step = taken.order_by("-position").first() if row.step else None
        if step is None:
            raise Refused("not_allowed", "It is not allowed yet, or the console executes it.")
        if step.ended_at is None:
            if (server := _server(run, row)) and not _can_sign():
                raise Refused("no_permits", f"Nobody signs permits for {server} here: {_NEEDED}.")
            with Commit(run, at=at) as commit:
                answer_await(step, {"taken": True}, commit)
                wake(commit)
        elif not (row.withdrawn_at or _server(run, row)):
            raise Refused(
                "taken", "It was taken before. The program that took it executes and reports it."
            )
        return ProposedCall(row, run)


def permit_of(agent: ExternalAgent, call: ProposedCall, *, at: datetime) -> str:
    """Return the permit of a taken call; "" if there is none, or after a report."""
    row, run = call.row, call.run
    if row.reported is not None:
        return ""
    effect = _effects_of(row).filter(state=EffectState.INTENDED).first()
    tool = tools_at(run.desk).get(effect.tool) if effect else None
    if effect is None or tool is None or not tool.server or run.state in ENDED:
        return ""
    if at.timestamp() >= expires_at(effect.intended_at):
        return ""
    try:
        check_agent(agent)
        args = RunBorder(run).resolve(effect.args)
    except (Refused, ValuesLocked):
        return ""
    with transaction.atomic():
        if switch_against(run, tool.name):
            return ""
    action = {"name": tool.name, "args": args}
    claims = claims_of(
        key=effect.key, server=tool.server, action=action, intended_at=effect.intended_at
    )
    return sign_permit(claims)


def report_call(
    *, agent: ExternalAgent, call_id: int, executed: bool, result: Json, at: datetime
) -> ProposedCall:
    """Record the outcome of a call that its agent took. The first report counts.

    An executed call is settled at once; one that was not, when its permit expires. A later report
    is recorded for the person who is asked. Raises Refused, DoesNotExist.
    """
    if not is_storable(result):
        raise Refused("bad_result", "The result cannot be kept.")
    with transaction.atomic():
        row, run = _locked_call(agent, call_id)
        effect = _effects_of(row).select_related("step").first()
        if effect is None:
            raise Refused("not_taken", "It was not taken, so there is nothing to report.")
        if run.is_emptied:
            raise Refused("session_ended", "It was erased: nothing more of it is kept.")
        report = redact_for(run, {"executed": executed, "result": result})
        if row.reported is not None:
            if row.reported != report:
                raise Refused("reported", "Something else was reported first, which stands.")
            return ProposedCall(row, run)
        row.reported = report
        row.save(update_fields=["reported"])
        is_late = effect.state != EffectState.INTENDED
        with Commit(run, at=at) as commit:
            facts = {"key": effect.step.key, "executed": executed, "is_late": is_late}
            commit.say("call.reported", facts)
            if executed and not is_late:
                settle_reported(effect, report["result"], commit)
        return ProposedCall(row, run)


def move_on(*, agent: ExternalAgent, reference: str, at: datetime) -> list[int]:
    """End a session's taken calls of repeatable tools without a report. Return the calls.

    Their outcome is unknown, and a person is asked.
    """
    repeatable = [name for name, tool in DESKS[agent.desk].tools.items() if tool.repeatable]
    out = Effect.objects.unsettled().filter(state=EffectState.INTENDED, tool__in=repeatable)
    out = out.filter(run__agent=agent, run__reference=reference, report_due_at__isnull=False)
    ended: list[int] = []
    for run_id in set(out.values_list("run", flat=True)):
        with transaction.atomic():
            run = lock_run(agent, run_id)
            rows = {turn_of(row.step): row for row in run.calls.exclude(step="")}
            left = out.filter(run=run).select_related("step").order_by("pk")
            mine = [(effect, rows[turn_of(effect.step.key)]) for effect in left]
            with Commit(run, at=at) as commit:
                for effect, row in mine if run.state not in ENDED else ():
                    if row.reported is None:
                        step, effect.step.run = effect.step, run
                        ask_what_came(step, effect.tool, effect.args, run.limits, commit)
                        ended.append(row.pk)
                        wake(commit)
    return sorted(ended)


def _effects_of(row: AgentCall) -> QuerySet[Effect]:
    """Return the ledger's row of a taken call, if there is one."""
    mine = Effect.objects.filter(run=row.run_id, report_due_at__isnull=False).order_by("-pk")
    return mine.filter(step__key__startswith=turn_of(row.step)) if row.step else mine.none()


def _server(run: Run, row: AgentCall) -> str:
    """Return the server that verifies permits of a call's tool; "" for none."""
    step = Step.objects.get(run=run, key=row.step)
    tool = tools_at(run.desk).get(str((step.reply or {}).get("name")))
    return tool.server if tool else ""


def _locked_call(agent: ExternalAgent, call_id: int) -> tuple[AgentCall, Run]:
    """Return a call with its run locked. Raises DoesNotExist."""
    mine = AgentCall.objects.filter(agent=agent, is_end=False)
    run = lock_run(agent, mine.get(pk=call_id).run_id)
    return mine.get(pk=call_id), run


# Permits are signed by an Ed25519 key derived from each of the installation's secrets. The first
# one signs. All are published, so that rotation keeps older permits valid.


def _can_sign() -> bool:
    """Tell whether this installation has keys and the library for permits."""
    return bool(settings.OPSCONSOLE_PERMIT_KEYS) and find_spec("jwt") is not None


def sign_permit(claims: dict[str, Json]) -> str:
    import jwt  # optional dependency

    key, kid = signing_key(settings.OPSCONSOLE_PERMIT_KEYS[0])
    return jwt.encode(claims, key, _ALGORITHM, headers={"typ": _KIND, "kid": kid})


def public_keys() -> dict[str, Json]:
    """Return the keys that verify permits, as a JWKS."""
    return {"keys": [_as_jwk(*signing_key(one)) for one in settings.OPSCONSOLE_PERMIT_KEYS]}


def _as_jwk(key: Ed25519PrivateKey, kid: str) -> dict[str, Json]:
    shown = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": shown}
    return {**jwk, "kid": kid, "alg": _ALGORITHM, "use": "sig"}


@cache
def signing_key(secret: str) -> tuple[Ed25519PrivateKey, str]:
    """Return the key derived from a secret, and its id."""
    seed = hmac.digest(secret.encode(), b"opsconsole permit key", "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key, hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
