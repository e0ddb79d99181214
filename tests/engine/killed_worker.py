"""A worker with a mail tool on the far side: as a program, its port, the tool's touch and a run."""

import sys


def main(port: str, touch: str, run_id: str) -> None:
    import django

    django.setup()
    from agents.core.reviews import Touch
    from agents.models import Run
    from agents.sdk.desk import DESKS
    from tests.engine.far_side import NAME, letter_tool
    from tests.engine.scene import go

    DESKS["refunds"].all_tools[NAME] = letter_tool(int(port), Touch(touch))
    go(Run.objects.get(pk=run_id))


if __name__ == "__main__":
    main(*sys.argv[1:])
