-- The SQL of protection.py; braces are filled in there. `check --database` compares the text of the
-- triggers with what a database has, so even a changed blank asks for a migration.

--- triggers
-- Triggers with a condition, columns or arguments of their own are another kind; rules are always
-- foreign. A foreign key is two triggers on either table.
SELECT CASE WHEN tgisinternal THEN conname ELSE tgname END, relname, prosrc,
  CASE WHEN tgisinternal THEN -2 WHEN tgqual IS NULL AND tgattr::text = '' AND tgnargs = 0
    AND lanname = 'plpgsql' AND proconfig = ARRAY['search_path=pg_catalog, ' ||
      quote_ident(current_schema()) || ', pg_temp'] THEN tgtype::int ELSE -1 END,
  tgenabled = 'A' OR (tgisinternal AND tgenabled = 'O')
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
  JOIN pg_language ON pg_language.oid = prolang
  LEFT JOIN pg_constraint ON pg_constraint.oid = tgconstraint
WHERE pg_table_is_visible(tgrelid)
UNION ALL
SELECT 'rule ' || rulename, relname, '', -1, true
FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
WHERE relkind = 'r' AND pg_table_is_visible(ev_class)

--- tables
-- Rows that a policy hides, or that come from a table below, are not those that were written.
SELECT relname, relkind = 'r' AND NOT relrowsecurity
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = pg_class.oid)
FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_table_is_visible(oid)

--- keys
SELECT own.relname, mine.attname, other.relname, its.attname FROM pg_constraint
  JOIN pg_class own ON own.oid = conrelid JOIN pg_class other ON other.oid = confrelid
  JOIN pg_attribute mine ON mine.attrelid = conrelid AND mine.attnum = conkey[1]
  JOIN pg_attribute its ON its.attrelid = confrelid AND its.attnum = confkey[1]
WHERE contype = 'f' AND pg_table_is_visible(conrelid)

--- path
-- Without this, a session's own tables and operators would come first.
DO $$ BEGIN EXECUTE format(
'ALTER FUNCTION {function}() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$

--- function
CREATE OR REPLACE FUNCTION agents_event_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the record is append-only'; END $$

--- refuse
CREATE OR REPLACE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
FOR EACH {each} EXECUTE FUNCTION agents_event_append_only()

--- refuse_unless
CREATE OR REPLACE FUNCTION {table}_no_delete() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
IF NOT {may} THEN
RAISE EXCEPTION 'the record is append-only';
END IF;
RETURN OLD;
END $$;
CREATE OR REPLACE TRIGGER {table}_no_delete BEFORE delete ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_no_delete()

--- wake
-- It only wakes listeners: data always comes from the table.
CREATE OR REPLACE FUNCTION agents_event_wake() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('{channel}', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER agents_event_wake AFTER INSERT ON agents_event
FOR EACH STATEMENT EXECUTE FUNCTION agents_event_wake()

--- stay
-- A function names the columns, so that a later migration may still alter them; the trigger's own
-- WHEN would bind them.
CREATE OR REPLACE FUNCTION {table}_stays() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
IF {changed} THEN
RAISE EXCEPTION 'what has ended stays as it is' USING ERRCODE = 'integrity_constraint_violation';
END IF;
RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER {table}_stays BEFORE UPDATE ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_stays()
