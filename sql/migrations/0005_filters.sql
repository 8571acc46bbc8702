-- Filters: the keys of the memories that pass one, in the `$` language of docs/reference/filters.md. Locks: none.
-- A filter is compiled to the text of a WHERE clause, then run once over the caller's memories under row security.
-- 50,000 memories on a busy machine of 2 cores, filters of one to ten conditions: 28 to 89 ms, 22 of them the scan; with a
-- function that walks the filter for every row, 435 to 6,073 ms.
-- The text is made of the constant fragments below and of integer positions; keys and values, the caller's words,
-- are only ever bound: $1 texts, $2 vals, $3 times. Every fragment is true or false, never null, and cannot raise
-- whatever a row holds: casts are avoided, and CASE looks at the type first (AND promises no order).
-- What is wrong with a filter is found while it is compiled: SQLSTATE 22023, naming key, operator or value.

SET LOCAL ROLE lore_owner;

-- name: filter_program
-- A filter while it is compiled: the condition of the part just read, the values that its positions point at, and
-- how much was read so far.
CREATE TYPE filter_program AS (
    condition text,
    texts     text[],
    vals      jsonb[],
    times     timestamptz[],
    nodes     integer,
    operands  integer
);

-- name: filter_time
-- The instant that ISO 8601 text names, UTC where it has no offset; NULL for any other text.
CREATE FUNCTION filter_time(value text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    SET timezone = 'UTC'
    AS $$
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)?)?$' THEN
        RETURN NULL;
    END IF;
    RETURN value::timestamptz;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN NULL;  -- the 30th of February
END
$$;

-- name: filter_items
-- The operand as a list of values, one row each, in order: a list's elements, or the single value.
CREATE FUNCTION filter_items(operand jsonb) RETURNS SETOF jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$ SELECT jsonb_array_elements(CASE jsonb_typeof(operand) WHEN 'array' THEN operand ELSE jsonb_build_array(operand) END) $$;

-- name: filter_scalar_fits
-- Whether a field of this type ('json', 'text', 'boolean', 'time') can be compared with the value.
CREATE FUNCTION filter_scalar_fits(field text, value jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    AS $$
    SELECT CASE jsonb_typeof(value)
               WHEN 'null' THEN true
               WHEN 'string' THEN field IN ('json', 'text') OR (field = 'time' AND filter_time(value #>> '{}') IS NOT NULL)
               WHEN 'boolean' THEN field IN ('json', 'boolean')
               WHEN 'number' THEN field = 'json'
               ELSE false
           END
    $$;

-- name: filter_operand_problem
-- What the operator takes, where the operand is something else; NULL where it fits.
CREATE FUNCTION filter_operand_problem(field text, operator text, operand jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    given CONSTANT text := jsonb_typeof(operand);
    value CONSTANT text := CASE field WHEN 'json' THEN 'null, a boolean, a number or a string' WHEN 'text' THEN 'a string or null'
        WHEN 'boolean' THEN 'true, false or null' ELSE 'ISO 8601 text such as "2026-01-31T09:00+01:00" (UTC if without offset), or null' END;
    -- Only metadata may hold lists; a system field that is text has no null to look for inside it.
    list CONSTANT boolean := operator IN ('$in', '$nin', '$between', '$any', '$all')
        OR (operator IN ('$eq', '$ne') AND field = 'json' AND given = 'array');
    never_null CONSTANT boolean := operator IN ('$lt', '$lte', '$gt', '$gte', '$between')
        OR (operator IN ('$contains', '$any', '$all') AND field = 'text');
BEGIN
    IF operator IN ('$exists', '$is_empty') THEN
        RETURN CASE WHEN given <> 'boolean' THEN 'true or false' END;
    ELSIF operator IN ('$like', '$ilike', '$text_match', '$text_match_insensitive') THEN
        RETURN CASE WHEN given <> 'string' THEN 'a string'
                    -- LIKE itself would raise, and only on some rows: it recurses for every %, and ends at a lone backslash.
                    WHEN operator IN ('$like', '$ilike') AND length(operand #>> '{}') > 1000 THEN 'a pattern of at most 1000 characters'
                    WHEN operator IN ('$like', '$ilike') AND (length(operand #>> '{}') - length(rtrim(operand #>> '{}', '\'))) % 2 = 1
                    THEN 'a pattern in which a backslash escapes the next character' END;
    ELSIF list AND given <> 'array' THEN
        RETURN 'a list';
    ELSIF NOT list AND given IN ('array', 'object') THEN
        RETURN value;
    ELSIF EXISTS (SELECT FROM filter_items(operand) AS i(item)
                  WHERE NOT filter_scalar_fits(field, item) OR (never_null AND jsonb_typeof(item) = 'null')
                     OR (operator IN ('$lt', '$lte', '$gt', '$gte', '$between') AND jsonb_typeof(item) = 'boolean')) THEN
        RETURN CASE WHEN never_null AND field = 'json' THEN 'a number or a string' ELSE value END;
    ELSIF operator = '$between' AND (jsonb_array_length(operand) <> 2 OR jsonb_typeof(operand -> 0) <> jsonb_typeof(operand -> 1)) THEN
        RETURN 'a list of two bounds of one type, lowest first';
    END IF;
    RETURN NULL;
END
$$;

-- name: filter_column
-- The column behind a system field; NULL for any other key.
CREATE FUNCTION filter_column(key text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$
    SELECT CASE key
               WHEN 'lore_id' THEN 'm.id' WHEN 'lore_kind' THEN 'm.kind' WHEN 'lore_visibility' THEN 'm.visibility'
               WHEN 'lore_owner' THEN 'm.owner' WHEN 'lore_agent' THEN 'm.agent' WHEN 'lore_session' THEN 'm.session'
               WHEN 'lore_source' THEN 'm.source' WHEN 'lore_trust' THEN 'm.trust' WHEN 'lore_language' THEN 'm.language'
               WHEN 'lore_pinned' THEN 'm.pinned' WHEN 'lore_created_at' THEN 'm.created_at'
               WHEN 'lore_updated_at' THEN 'm.updated_at' WHEN 'lore_expires_at' THEN 'm.expires_at'
           END
    $$;

-- name: filter_text_test
-- The program with a test on text added: true only where `guard` holds, then `subject` is compared.
CREATE FUNCTION filter_text_test(program filter_program, guard text, subject text, operator text, operand jsonb) RETURNS filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    first CONSTANT integer := cardinality(program.texts) + 1;
    folded CONSTANT text := 'lower(%1$s COLLATE "default") COLLATE "C"';
    test CONSTANT text := CASE operator
        WHEN '$lt' THEN '%1$s < ($1)[%2$s]'
        WHEN '$lte' THEN '%1$s <= ($1)[%2$s]'
        WHEN '$gt' THEN '%1$s > ($1)[%2$s]'
        WHEN '$gte' THEN '%1$s >= ($1)[%2$s]'
        WHEN '$between' THEN '%1$s BETWEEN ($1)[%2$s] AND ($1)[%3$s]'
        WHEN '$like' THEN '%1$s LIKE ($1)[%2$s]'
        WHEN '$ilike' THEN folded || ' LIKE lower(($1)[%2$s])'
        WHEN '$text_match' THEN 'strpos(%1$s, ($1)[%2$s]) > 0'
        WHEN '$text_match_insensitive' THEN 'strpos(' || folded || ', lower(($1)[%2$s])) > 0'
        WHEN '$contains' THEN 'strpos(%1$s, ($1)[%2$s]) > 0'
        WHEN '$any' THEN 'EXISTS (SELECT FROM unnest(($1)[%2$s:%3$s]) AS i(item) WHERE strpos(%1$s, item) > 0)'
        WHEN '$all' THEN 'NOT EXISTS (SELECT FROM unnest(($1)[%2$s:%3$s]) AS i(item) WHERE strpos(%1$s, item) = 0)'
    END;
BEGIN
    program.texts := program.texts || ARRAY(SELECT item #>> '{}' FROM filter_items(operand) AS i(item) WHERE jsonb_typeof(item) = 'string');
    program.condition := format('CASE WHEN %s THEN %s ELSE false END', guard,
                                format(test, subject, first, cardinality(program.texts)));
    RETURN program;
END
$$;

-- name: filter_list_test
-- The program with `$contains`, `$any` or `$all` on metadata added: elements of a list, or parts of a string.
CREATE FUNCTION filter_list_test(program filter_program, lookup text, words text, operator text, operand jsonb) RETURNS filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    first CONSTANT integer := cardinality(program.vals) + 1;
    in_list CONSTANT text := CASE operator
        WHEN '$any' THEN 'EXISTS (SELECT FROM jsonb_array_elements(%1$s) AS i(item) WHERE item = ANY (($2)[%2$s:%3$s]))'
        ELSE '%1$s @> ($2)[%2$s]' END;
    -- A string holds strings only: one of them will do for `$any`, everything else has to be one.
    in_text CONSTANT boolean := (SELECT CASE operator WHEN '$any' THEN bool_or(jsonb_typeof(item) = 'string')
                                                      ELSE bool_and(jsonb_typeof(item) = 'string') END
                                 FROM filter_items(operand) AS i(item));
BEGIN
    IF operand = '[]' THEN
        -- All of nothing is in whatever is there, any of nothing nowhere.
        program.condition := CASE operator WHEN '$all' THEN 'coalesce(' || lookup || ' <> ''null'', false)' ELSE 'false' END;
        RETURN program;
    END IF;
    program.vals := program.vals || CASE operator WHEN '$any' THEN ARRAY(SELECT filter_items(operand)) ELSE ARRAY[operand] END;
    program.condition := 'false';
    IF in_text THEN
        program := filter_text_test(program, 'jsonb_typeof(' || lookup || ') = ''string''', words, operator, operand);
    END IF;
    program.condition := format('CASE WHEN jsonb_typeof(%s) = ''array'' THEN %s ELSE %s END',
                                lookup, format(in_list, lookup, first, cardinality(program.vals)), program.condition);
    RETURN program;
END
$$;

-- name: filter_metadata_condition
-- The program with a condition on a metadata key added. Equality and order are jsonb's own within one type, so that
-- 9 < 10 and 1 = 1.0, and neither is true or "1"; text compares by code point.
CREATE FUNCTION filter_metadata_condition(program filter_program, key text, operator text, operand jsonb) RETURNS filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    lookup CONSTANT text := format('(m.metadata -> ($1)[%s])', cardinality(program.texts) + 1);
    words CONSTANT text := format('((m.metadata ->> ($1)[%s]) COLLATE "C")', cardinality(program.texts) + 1);
    first CONSTANT integer := cardinality(program.vals) + 1;
    identity CONSTANT text := CASE operator
        WHEN '$eq' THEN 'coalesce(%1$s = ($2)[%2$s], false)'
        WHEN '$in' THEN 'coalesce(%1$s = ANY (($2)[%2$s:%3$s]), false)'
        WHEN '$exists' THEN '(%1$s IS NOT NULL)'
        WHEN '$is_empty' THEN 'coalesce(%1$s IN (''null'', ''""'', ''[]''), true)' END;
    range CONSTANT text := CASE operator
        WHEN '$lt' THEN '%1$s < ($2)[%2$s]'
        WHEN '$lte' THEN '%1$s <= ($2)[%2$s]'
        WHEN '$gt' THEN '%1$s > ($2)[%2$s]'
        WHEN '$gte' THEN '%1$s >= ($2)[%2$s]'
        WHEN '$between' THEN '%1$s BETWEEN ($2)[%2$s] AND ($2)[%3$s]' END;
BEGIN
    program.texts := program.texts || key;
    IF operator IN ('$contains', '$any', '$all') THEN
        RETURN filter_list_test(program, lookup, words, operator, operand);
    ELSIF identity IS NULL AND 'string' IN (jsonb_typeof(operand), jsonb_typeof(operand -> 0)) THEN
        RETURN filter_text_test(program, 'jsonb_typeof(' || lookup || ') = ''string''', words, operator, operand);
    END IF;
    program.vals := program.vals || CASE WHEN operator IN ('$in', '$between') THEN ARRAY(SELECT filter_items(operand)) ELSE ARRAY[operand] END;
    program.condition := format(coalesce(identity, 'CASE WHEN jsonb_typeof(%1$s) = ''number'' THEN ' || range || ' ELSE false END'),
                                lookup, first, cardinality(program.vals));
    RETURN program;
END
$$;

-- name: filter_system_condition
-- The program with a condition on a memory's own field added. Plain comparisons, so that an index may serve them.
CREATE FUNCTION filter_system_condition(program filter_program, key text, field text, operator text, operand jsonb) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    own CONSTANT text := filter_column(key);
    given CONSTANT jsonb[] := ARRAY(SELECT item FROM filter_items(operand) AS i(item) WHERE item <> 'null');
    or_unset CONSTANT text := CASE WHEN operator IN ('$eq', '$in') AND cardinality(given) < (SELECT count(*) FROM filter_items(operand))
                                   THEN ' OR %1$s IS NULL' ELSE '' END;
    bound CONSTANT text := CASE field WHEN 'time' THEN '($3)' ELSE '($1)' END;
    first CONSTANT integer := cardinality(CASE field WHEN 'time' THEN program.times::text[] ELSE program.texts END) + 1;
    test CONSTANT text := CASE
        WHEN operator = '$exists' THEN '(%1$s IS NOT NULL)'
        WHEN operator = '$is_empty' AND field = 'text' THEN 'coalesce(%1$s = '''', true)'
        WHEN operator = '$is_empty' THEN '(%1$s IS NULL)'
        WHEN field = 'boolean' THEN '(' || CASE WHEN 'true' = ANY (given) THEN '%1$s IS TRUE' ELSE 'false' END
            || CASE WHEN 'false' = ANY (given) THEN ' OR %1$s IS FALSE' ELSE '' END || or_unset || ')'
        WHEN operator IN ('$eq', '$in') THEN '(%1$s IS NOT NULL AND %1$s = ANY (' || bound || '[%2$s:%3$s])' || or_unset || ')'
        WHEN operator = '$lt' THEN '(%1$s IS NOT NULL AND %1$s < ' || bound || '[%2$s])'
        WHEN operator = '$lte' THEN '(%1$s IS NOT NULL AND %1$s <= ' || bound || '[%2$s])'
        WHEN operator = '$gt' THEN '(%1$s IS NOT NULL AND %1$s > ' || bound || '[%2$s])'
        WHEN operator = '$gte' THEN '(%1$s IS NOT NULL AND %1$s >= ' || bound || '[%2$s])'
        WHEN operator = '$between' THEN '(%1$s IS NOT NULL AND %1$s BETWEEN ' || bound || '[%2$s] AND ' || bound || '[%3$s])'
    END;
BEGIN
    IF field = 'text' AND operator NOT IN ('$exists', '$is_empty', '$eq', '$in') THEN
        RETURN filter_text_test(program, own || ' IS NOT NULL', '(' || own || ' COLLATE "C")', operator, operand);
    ELSIF field = 'time' THEN
        program.times := program.times || ARRAY(SELECT filter_time(item #>> '{}') FROM unnest(given) AS i(item));
    ELSE
        program.texts := program.texts || ARRAY(SELECT item #>> '{}' FROM unnest(given) AS i(item));
    END IF;
    program.condition := format(test, own, first, first + cardinality(given) - 1);
    RETURN program;
END
$$;

-- name: filter_condition
-- The program with one condition added, once it is found to make sense.
CREATE FUNCTION filter_condition(program filter_program, key text, operator text, operand jsonb) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    known CONSTANT text[] := ARRAY['$eq', '$ne', '$in', '$nin', '$exists', '$is_empty', '$lt', '$lte', '$gt', '$gte', '$between',
                                   '$like', '$ilike', '$text_match', '$text_match_insensitive', '$contains', '$any', '$all'];
    own CONSTANT text := filter_column(key);
    field CONSTANT text := CASE WHEN own IS NULL THEN 'json' WHEN key = 'lore_pinned' THEN 'boolean'
                                WHEN key IN ('lore_created_at', 'lore_updated_at', 'lore_expires_at') THEN 'time' ELSE 'text' END;
    allowed CONSTANT text[] := CASE field WHEN 'boolean' THEN known[:6] WHEN 'time' THEN known[:11] ELSE known END;
    plain CONSTANT text := CASE operator WHEN '$ne' THEN '$eq' WHEN '$nin' THEN '$in' ELSE operator END;
    where_at CONSTANT text := 'filter on ' || left(to_jsonb(key)::text, 80);
    problem text;
BEGIN
    program.operands := program.operands + CASE jsonb_typeof(operand) WHEN 'array' THEN jsonb_array_length(operand) ELSE 1 END;
    IF program.operands > 10000 THEN
        problem := 'more than 10000 values in one filter. Search in several parts, or store a key that names the group';
    ELSIF own IS NULL AND starts_with(key, 'lore_') THEN
        problem := 'unknown system field. Known: lore_id, lore_kind, lore_visibility, lore_owner, lore_agent, lore_session, lore_source, '
            || 'lore_trust, lore_language, lore_pinned, lore_created_at, lore_updated_at, lore_expires_at';
    ELSIF operator <> ALL (known) THEN
        problem := 'unknown operator ' || left(to_jsonb(operator)::text, 80) || '. Allowed: ' || array_to_string(allowed, ', ');
    ELSIF operator <> ALL (allowed) THEN
        problem := operator || ' does not apply. Allowed: ' || array_to_string(allowed, ', ');
    ELSE
        problem := operator || ' takes ' || filter_operand_problem(field, operator, operand) || ', not ' || left(operand::text, 80);
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%: %.', where_at, problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    program := CASE WHEN own IS NULL THEN filter_metadata_condition(program, key, plain, operand)
                                     ELSE filter_system_condition(program, key, field, plain, operand) END;
    IF operator <> plain OR (operator IN ('$exists', '$is_empty') AND operand = 'false') THEN
        program.condition := '(NOT ' || program.condition || ')';
    END IF;
    RETURN program;
END
$$;

-- name: filter_enter
-- The program with one more node counted, on level `depth` (the root is 1).
CREATE FUNCTION filter_enter(program filter_program, depth integer) RETURNS filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
    AS $$
BEGIN
    IF depth > 16 THEN
        RAISE EXCEPTION 'filter: more than 16 levels deep. Join the inner $and / $or lists into fewer levels.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    program.nodes := program.nodes + 1;
    IF program.nodes > 500 THEN
        RAISE EXCEPTION 'filter: more than 500 conditions. Use $in for many values of one key.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN program;
END
$$;

-- name: filter_field
-- The program with all that stands under one key added: operators, which must all hold, or a value to be equal to.
CREATE FUNCTION filter_field(program filter_program, key text, value jsonb, depth integer) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    operators CONSTANT jsonb := CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE jsonb_build_object('$eq', value) END;
    several CONSTANT integer := ((SELECT count(*) FROM jsonb_object_keys(operators)) > 1)::integer;
    conditions text[] := '{}';
    part record;
BEGIN
    IF operators = '{}' THEN
        RAISE EXCEPTION 'filter on %: {} names no operator, as in {"$gt": 1}.', left(to_jsonb(key)::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF several = 1 THEN
        program := filter_enter(program, depth);
    END IF;
    FOR part IN SELECT o.key AS operator, o.value AS operand FROM jsonb_each(operators) AS o LOOP
        program := filter_condition(filter_enter(program, depth + several), key, part.operator, part.operand);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, ' AND ') || ')';
    RETURN program;
END
$$;

-- name: filter_list
-- The program with a list of filters added, joined by AND or OR; an empty list is true for AND, false for OR.
CREATE FUNCTION filter_list(program filter_program, operator text, joined_by text, parts jsonb, depth integer) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    conditions text[] := ARRAY[CASE joined_by WHEN ' AND ' THEN 'true' ELSE 'false' END];
    part jsonb;
BEGIN
    IF jsonb_typeof(parts) <> 'array' THEN
        RAISE EXCEPTION 'filter: % takes a list of filters, not %.', operator, left(parts::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR part IN SELECT jsonb_array_elements(parts) LOOP
        program := filter_node(program, part, depth);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, joined_by) || ')';
    RETURN program;
END
$$;

-- name: filter_entry
-- The program with one entry of a filter added: `$and`, `$or` or `$not` and what they join, or a key.
CREATE FUNCTION filter_entry(program filter_program, name text, value jsonb, depth integer) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
BEGIN
    IF name = '$and' THEN
        RETURN filter_list(filter_enter(program, depth), name, ' AND ', value, depth + 1);
    ELSIF name = '$or' THEN
        RETURN filter_list(filter_enter(program, depth), name, ' OR ', value, depth + 1);
    ELSIF name = '$not' THEN
        program := filter_enter(program, depth);
        IF jsonb_typeof(value) = 'array' THEN  -- none of them holds
            program := filter_list(filter_enter(program, depth + 1), name, ' OR ', value, depth + 2);
        ELSE
            program := filter_node(program, value, depth + 1);
        END IF;
        program.condition := '(NOT ' || program.condition || ')';
        RETURN program;
    ELSIF starts_with(name, '$') THEN
        RAISE EXCEPTION 'filter: % is no key; operators stand under a key, as in {"size": {"$gt": 1}}; above keys: $and, $or, $not.',
            left(to_jsonb(name)::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN filter_field(program, name, value, depth);
END
$$;

-- name: filter_node
-- The program with a filter or a part of one added: its entries must all hold; without entries it is true.
CREATE FUNCTION filter_node(program filter_program, node jsonb, depth integer) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    level integer := depth;
    conditions text[] := ARRAY['true'];
    entry record;
BEGIN
    IF jsonb_typeof(node) <> 'object' THEN
        RAISE EXCEPTION 'filter: takes an object such as {"topic": "deploy"}, not %.', left(node::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF (SELECT count(*) FROM jsonb_object_keys(node)) <> 1 THEN  -- an $and without the word
        program := filter_enter(program, depth);
        level := depth + 1;
    END IF;
    FOR entry IN SELECT e.key, e.value FROM jsonb_each(node) AS e LOOP
        program := filter_entry(program, entry.key, entry.value, level);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, ' AND ') || ')';
    RETURN program;
END
$$;

-- name: compile_filter
-- The whole filter as a program; NULL, JSON null and {} are no filter.
CREATE FUNCTION compile_filter(filter jsonb) RETURNS filter_program
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    nothing CONSTANT filter_program := ROW('true', '{}', '{}', '{}', 0, 0);
BEGIN
    RETURN CASE WHEN filter IS NULL OR filter = 'null' THEN nothing ELSE filter_node(nothing, filter, 1) END;
END
$$;

-- name: allowed_keys
-- The keys, in no order, of the memories that this scope sees and that pass the filter and are of one of the kinds
-- (NULL: of any). Live ones: now, or as of an instant, when later ones had not been created yet and those that have
-- been invalidated since still stood. Runs as the caller, so row security bounds it; without a scope it is empty.
CREATE FUNCTION allowed_keys(filter jsonb, kinds text[] DEFAULT NULL, as_of timestamptz DEFAULT NULL) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    SET jit = off  -- compiling a long condition takes longer than running it
    SET max_parallel_workers_per_gather = 0  -- starting workers takes longer than the scan
    SET enable_bitmapscan = on  -- what is shared by one index, what is the caller's by another, and nothing of anybody else's
    AS $$
DECLARE
    program CONSTANT filter_program := compile_filter(filter);
    allowed bigint[];
BEGIN
    EXECUTE 'SELECT coalesce(array_agg(m.key), ''{}'') FROM memories AS m WHERE m.org = $4 AND ($5 IS NULL OR m.kind = ANY ($5)) AND '
        || CASE WHEN as_of IS NULL
               THEN 'm.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) AND '
               ELSE 'm.created_at <= $6 AND (m.invalidated_at IS NULL OR m.invalidated_at > $6) AND (m.expires_at IS NULL OR m.expires_at > $6) AND '
           END
        || program.condition
        INTO allowed
        USING program.texts, program.vals, program.times, scope_org(), kinds, as_of;
    RETURN allowed;
END
$$;

RESET ROLE;
