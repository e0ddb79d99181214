"""What a text names, under the path that programs of others import."""

from agents.sdk.amounts import amounts_in as amounts_in
from agents.sdk.rules import is_named as is_named
