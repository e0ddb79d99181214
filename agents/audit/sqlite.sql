-- The SQL of protection.py; braces are filled in there. `check --database` compares the text of the
-- triggers with what a database has, so even a changed blank asks for a migration.

--- triggers
-- Name, table, text, kind, and whether it is on.
SELECT name, tbl_name, sql, 0, 1 FROM sqlite_master WHERE type = 'trigger'

--- tables
SELECT name, type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' FROM sqlite_master
WHERE type IN ('table', 'view')

--- keys
-- Read for all tables at once: Django reads each apart, and parses its whole text.
SELECT own.name, fk."from", fk."table", fk."to" FROM sqlite_master own
JOIN pragma_foreign_key_list(own.name) fk WHERE own.type = 'table'

--- refuse
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END

--- refuse_unless
CREATE TRIGGER {table}_no_delete BEFORE delete ON {table}
WHEN NOT {may}
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END

--- stay
CREATE TRIGGER {table}_stays BEFORE UPDATE ON {table}
WHEN {changed}
BEGIN SELECT RAISE(ABORT, 'what has ended stays as it is'); END
