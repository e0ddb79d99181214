"""The exit codes of commands; docs/operations.md has the table."""

BAD_USAGE = 2  # or a setting that cannot be used
REFUSED = 3  # or not as it should be
WAITING = 4  # for a person
UNUSABLE = 5  # the database
BEHIND = 6  # the database lacks migrations, or is too old to get them
