"""Put an agent's tool calls through opsconsole: ruled on, held, changed, carried out once."""

from opsconsole_client.desk import Desk, Session
from opsconsole_client.keys import Asked
from opsconsole_client.outcomes import DeskError, Outcome, Refused, Unreachable

__all__ = ["Asked", "Desk", "DeskError", "Outcome", "Refused", "Session", "Unreachable"]
