"""The tables of the supervised graph, and every statement that it sends.

The same SQL serves both databases: times are text as the chain spells them, so they compare.
"""

TABLES = (
    "bench_threads (id TEXT PRIMARY KEY, workspace BIGINT NOT NULL, goal TEXT NOT NULL,"
    " customer BIGINT NOT NULL, launched_by BIGINT NOT NULL, state TEXT NOT NULL,"
    " event_count BIGINT NOT NULL, head_hash TEXT NOT NULL, created_at TEXT NOT NULL)",
    "bench_escalations (thread TEXT, step BIGINT, state TEXT NOT NULL, action TEXT NOT NULL,"
    " action_sha256 TEXT NOT NULL, review TEXT NOT NULL, requested_minor BIGINT,"
    " expires_at TEXT NOT NULL, granted_minor BIGINT, comment TEXT, decided_by BIGINT,"
    " decided_at TEXT, PRIMARY KEY (thread, step))",
    "bench_effects (thread TEXT, step BIGINT, tool TEXT NOT NULL, args TEXT NOT NULL,"
    " args_sha256 TEXT NOT NULL, book BIGINT NOT NULL, customer BIGINT NOT NULL, charge BIGINT,"
    " amount_minor BIGINT, by_person BOOLEAN NOT NULL, state TEXT NOT NULL, result TEXT,"
    " intended_at TEXT NOT NULL, settled_at TEXT, PRIMARY KEY (thread, step))",
    "bench_events (thread TEXT, seq BIGINT, kind TEXT NOT NULL, facts TEXT NOT NULL,"
    " actor TEXT NOT NULL, at TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (thread, seq))",
)
# For what was refunded without a person: the refunds that a person granted are not in it.
INDEX = (
    "CREATE INDEX IF NOT EXISTS bench_unattended ON bench_effects (book, customer)"
    " WHERE tool = 'issue_refund' AND NOT by_person"
)
LAUNCH = "INSERT INTO bench_threads VALUES (%s, %s, %s, %s, %s, 'running', %s, %s, %s)"
MOVE = "UPDATE bench_threads SET state = %s, event_count = %s, head_hash = %s WHERE id = %s"
SAY = "INSERT INTO bench_events VALUES "
HOLD = (
    "INSERT INTO bench_escalations (thread, step, state, action, action_sha256, review,"
    " requested_minor, expires_at) VALUES (%s, %s, 'open', %s, %s, %s, %s, %s)"
)
DECIDE = (
    "UPDATE bench_escalations SET state = 'decided', granted_minor = %s, comment = %s,"
    " decided_by = %s, decided_at = %s"
    " WHERE thread = %s AND step = %s AND state = 'open' AND expires_at > %s"
)
INTEND = (
    "INSERT INTO bench_effects (thread, step, tool, args, args_sha256, book, customer, charge,"
    " amount_minor, by_person, state, intended_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'intended', %s)"
)
SETTLE = (
    "UPDATE bench_effects SET state = %s, result = %s, settled_at = %s"
    " WHERE thread = %s AND step = %s AND state = 'intended'"
)
THREAD = (
    "SELECT workspace, customer, launched_by, state, event_count, head_hash FROM bench_threads"
    " WHERE id = %s"
)
ESCALATIONS = (
    "SELECT step, state, action, action_sha256, review, requested_minor, expires_at, granted_minor"
    " FROM bench_escalations WHERE thread = %s ORDER BY step"
)
EFFECTS = (
    "SELECT step, tool, args, customer, amount_minor, by_person, state, result"
    " FROM bench_effects WHERE thread = %s ORDER BY step"
)
UNATTENDED = (
    "SELECT charge, amount_minor FROM bench_effects WHERE book = %s AND customer = %s"
    " AND tool = 'issue_refund' AND NOT by_person AND state <> 'refused' AND intended_at >= %s"
)
OF_WORKSPACE = "SELECT id FROM bench_threads WHERE workspace = %s"
EVENTS = "SELECT kind, facts, actor, at, hash FROM bench_events WHERE thread = %s ORDER BY seq"
