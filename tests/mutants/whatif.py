"""The guards of trying a draft, each broken once."""

from tests.mutants.plant import Mutant

FLIPS, TRIED = "agents/policies/flips.py", "agents/publishing/whatif.py"
PURE, STORED = "tests/policies/test_flips.py", "tests/engine/test_whatif.py"

WHATIF = tuple(
    Mutant(*one)
    for one in (
        (
            "what follows an approval is a proposal",
            TRIED,
            'return not step.asked.get("granted") and wanted(',
            "return wanted(",
            f"{STORED} -k raises",
        ),
        (
            "another workspace's runs are counted",
            TRIED,
            "Run.objects.filter(workspace=workspace, ",
            "Run.objects.filter(",
            f"{STORED} -k other_workspaces",
        ),
        (
            "the version of then is what was",
            TRIED,
            "return self._known[pattern, desk]",
            "return (after := self._known[pattern, desk])[1], *after[1:]",
            f"{STORED} -k in_force",
        ),
        (
            "a rule that raises blocks",
            "agents/policies/again.py",
            "if any(one.reason == FAILED for one in ruled.rulings):",
            "if False:",
            f"{STORED} -k raises",
        ),
        (
            "a run counts twice",
            FLIPS,
            "one.asked, one.people))\n                return",
            "one.asked, one.people))",
            f"{PURE} -k counts_once",
        ),
        (
            "two currencies are one sum",
            FLIPS,
            "key = (desk, one.tool, one.currency, was, would, rule)",
            'key = (desk, one.tool, "", was, would, rule)',
            f"{PURE} -k counts_once",
        ),
        (
            "a gathered limit shows no flips",
            FLIPS,
            "(unknown if limit.gathered else others)",
            "others",
            f"{PURE} -k do_not_read",
        ),
        (
            "a block is no flip",
            FLIPS,
            "if was != would:",
            "if was != would != BLOCKED:",
            f"{PURE} -k ordered",
        ),
    )
)
