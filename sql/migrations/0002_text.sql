-- Text functions: what the lexical legs index, and how queries are read. Locks: none.
-- Writing and searching call the same functions, so that both sides agree on what a word is.

DO $grants$
DECLARE
    home name;
BEGIN
    -- The extensions may live in a schema that is not open to everyone.
    FOR home IN SELECT DISTINCT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
                WHERE e.extname IN ('vector', 'pg_trgm', 'btree_gin', 'unaccent', 'fuzzystrmatch')
                  AND NOT has_schema_privilege('lore_user', n.nspname, 'USAGE') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO lore_owner, lore_search, lore_service, lore_user', home);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO lore_search, lore_service, lore_user', current_schema());
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO lore_owner WITH GRANT OPTION', current_schema());
END
$grants$;

SET LOCAL ROLE lore_owner;

-- name: folded_text
-- The text with compatibility forms folded (full-width letters, ligatures); ASCII returns at once.
CREATE FUNCTION folded_text(content text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE  -- not STRICT, else it would not be inlined
    AS $$ SELECT CASE WHEN octet_length(content) = length(content) THEN content ELSE normalize(content, NFKC) END $$;

-- name: text_hash
-- SHA-256 of a text in UTF-8, the only encoding that a store lives in.
CREATE FUNCTION text_hash(content text) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ SELECT sha256(convert_to(content, 'UTF8')) $$;

-- name: split_compounds
-- The text with separators between letters and digits opened: "kube-state_metrics" gives "kube state metrics".
-- The default parser would make "-4471" of "ERR-4471" and one host name of "metrics.kube".
CREATE FUNCTION split_compounds(content text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ SELECT regexp_replace(content, '(?<=[[:alnum:]])[-_./:@#\\=+~]+(?=[[:alnum:]])', ' ', 'g') $$;

-- name: compound_forms
-- Extra words that stand for a compound as a whole and for the parts of a CamelCase word:
-- "ERR-4471 KubePod CPUHigh" gives "ERR4471 Kube Pod CPU High".
CREATE FUNCTION compound_forms(content text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$
    SELECT concat_ws(' ',
        (SELECT string_agg(regexp_replace(found[1], '[^[:alnum:]]+', '', 'g'), ' ')
         FROM regexp_matches(content, '[[:alnum:]]+(?:[-_./:]+[[:alnum:]]+)+', 'g') AS found
         WHERE length(found[1]) <= 64),
        (SELECT string_agg(regexp_replace(regexp_replace(found[1], '([[:upper:]])([[:upper:]][[:lower:]]{2})', '\1 \2', 'g'),
                                          '([[:lower:][:digit:]])([[:upper:]])', '\1 \2', 'g'), ' ')
         FROM regexp_matches(content, '[[:alnum:]]*(?:[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2})[[:alnum:]]*', 'g') AS found
         WHERE length(found[1]) <= 128))
    $$;

-- name: unsplit_bigrams
-- The text with runs of scripts that write no spaces cut into overlapping pairs of characters.
-- Chinese, Japanese, Korean and Thai: "本地部署" gives "本地 地部 部署". In a stored text (`ending`) the last
-- character stands alone too ("署"), so that a query of one character, read as a prefix, finds every place of it.
CREATE FUNCTION unsplit_bigrams(content text, ending boolean) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$
    SELECT string_agg(CASE WHEN run.found[1] IS NULL THEN run.found[2] ELSE ' ' || pairs.joined || ' ' END, '' ORDER BY run.n)
    FROM regexp_matches(content,
             '([\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+)|([^\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+)',
             'g') WITH ORDINALITY AS run(found, n)
    LEFT JOIN LATERAL (
        SELECT string_agg(pair, ' ' ORDER BY i) AS joined
        FROM (SELECT c.char || coalesce(lead(c.char) OVER (ORDER BY c.i), '') AS pair, c.i
              FROM unnest(string_to_array(run.found[1], NULL)) WITH ORDINALITY AS c(char, i)) AS p
        WHERE ending OR length(pair) = 2 OR length(run.found[1]) = 1
    ) AS pairs ON run.found[1] IS NOT NULL
    $$;

-- name: has_unsplit_script
-- Whether the text holds a character of a script that writes no spaces.
CREATE FUNCTION has_unsplit_script(content text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE  -- not STRICT, else it would not be inlined
    AS $$ SELECT octet_length(content) > length(content)
          AND content ~ '[\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]' $$;

-- name: search_text
-- What the text leg reads of a memory: compounds opened, their whole forms added, unsplit scripts in bigrams.
-- `ending` as in unsplit_bigrams: true for a stored text, false for a query.
CREATE FUNCTION search_text(content text, ending boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    folded text := folded_text(content);
    words text := split_compounds(folded) || ' ' || compound_forms(folded);
BEGIN
    RETURN CASE WHEN has_unsplit_script(words) THEN unsplit_bigrams(words, ending) ELSE words END;
END
$$;

-- name: text_vector
-- The tsvector of a text under a configuration. `config` is the name of a text-search configuration, with
-- "+unaccent" behind it where accents are to be folded: "english", "simple", "german+unaccent".
CREATE FUNCTION text_vector(config text, content text, ending boolean) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    words text := search_text(content, ending);
BEGIN
    IF config LIKE '%+unaccent' THEN
        RETURN to_tsvector(split_part(config, '+', 1)::regconfig, unaccent('unaccent'::regdictionary, words));
    END IF;
    RETURN to_tsvector(config::regconfig, words);
END
$$;

-- name: indexed_chars
-- How many characters of a content enter its tsvector, which holds 1 MB: nearly always all of them.
-- Below 60,000 characters no text can outgrow it (at most 12 bytes a character, measured on unique bigrams).
CREATE FUNCTION indexed_chars(config text, content text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    chars integer := length(content);
BEGIN
    WHILE chars > 60000 LOOP
        BEGIN
            PERFORM text_vector(config, left(content, chars), true);
            RETURN chars;
        EXCEPTION WHEN program_limit_exceeded THEN
            chars := greatest(60000, chars / 3);
        END;
    END LOOP;
    RETURN chars;
END
$$;

-- name: memory_vector
-- The tsvector stored with a memory: of all its text, or of as much as fits. Stems that stand in its first 200
-- characters carry the label A in all their places: a text says at its head what it is about (docs/evaluation.md).
CREATE FUNCTION memory_vector(config text, content text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    head CONSTANT tsvector := text_vector(config, left(content, 200), true);
BEGIN
    IF length(content) <= 200 THEN
        RETURN setweight(head, 'A');
    END IF;
    RETURN setweight(
        text_vector(config, CASE WHEN length(content) <= 60000 THEN content ELSE left(content, indexed_chars(config, content)) END, true),
        'A', tsvector_to_array(head));
END
$$;

-- name: is_identifier
-- Whether a token of a text is a name that somebody typed on purpose rather than a word of prose:
-- digits beside letters ("ERR-4471", "v1.2.3"), four digits or more, a file or host name, snake_case,
-- CamelCase ("KubePod", "SSPDown", but not "PDFs"), a handle, a path, three parts joined by hyphens. "1st" and "2nd" are prose.
CREATE FUNCTION is_identifier(token text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE  -- not STRICT, else it would not be inlined
    AS $$
    SELECT length(token) BETWEEN 3 AND 256
       AND (   (token ~ '[[:digit:]]' AND token ~ '[[:alpha:]_@./-]' AND token !~* '^[[:digit:]]+(st|nd|rd|th|s|x)$')
            OR token ~ '^[[:digit:]]{4,}$'
            OR token ~ '[[:alnum:]](_|::)[[:alnum:]]'
            OR token ~ '[[:alpha:]]{2,}\.[[:alpha:]]{2,}'
            OR token ~ '^[@#/~]'
            OR token ~ '/.+/'
            OR token ~ '@[[:alnum:]]'
            OR token ~ '[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}'
            OR token ~ '[[:alnum:]]-[[:alnum:]]+-[[:alnum:]]')
    $$;

-- name: tokens_as_typed
-- One row per token that could be an identifier, in the order of the text, punctuation around it removed. Scripts that
-- write no spaces count as spaces: "部署ERR-4471方案" holds "ERR-4471".
CREATE FUNCTION tokens_as_typed(content text) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$
    SELECT found[1]
    FROM regexp_matches(
        CASE WHEN has_unsplit_script(content) THEN regexp_replace(content, '[\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+', ' ', 'g') ELSE content END,
        '([@#/~]?[[:alnum:]]+(?:[-_./:@\\+~#=?&%]+[[:alnum:]]+)*)', 'g') AS found
    $$;

-- name: identifiers_of
-- The identifiers in a content, lower case: each as typed, and the parts of it that are identifiers themselves
-- (the file name of a path, "4471" of "ERR-4471"). At most 2,000.
CREATE FUNCTION identifiers_of(content text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    -- Every identifier stands in a piece between spaces that carries one of these marks; most words of prose carry none.
    -- A loop, since a query over sets of unknown size makes and clears hash tables for each text, which took four times as
    -- long.
    marked CONSTANT text := (
        SELECT string_agg(piece[1], ' ')
        FROM regexp_matches(folded_text(content), '\S*(?:[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-\S*-)\S*', 'g') AS piece);
    token text;
    part text;
    names text[] := '{}';
BEGIN
    IF marked IS NULL THEN
        RETURN names;
    END IF;
    FOR token IN SELECT DISTINCT t FROM tokens_as_typed(marked) AS t LOOP
        CONTINUE WHEN token !~ '[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-.*-' OR NOT is_identifier(token);
        names := names || lower(token);
        FOREACH part IN ARRAY
            CASE WHEN token ~ '[/:@#\\?&=%+~]' THEN regexp_split_to_array(token, '[/:@#\\?&=%+~]+') ELSE '{}' END
            || CASE WHEN token ~ '[^[:alnum:]-]' THEN regexp_split_to_array(token, '[^[:alnum:]-]+') ELSE '{}' END
            || CASE WHEN token ~ '[^[:alnum:]]' THEN regexp_split_to_array(token, '[^[:alnum:]]+') ELSE '{}' END LOOP
            IF is_identifier(part) THEN
                names := names || lower(part);
            END IF;
        END LOOP;
    END LOOP;
    RETURN CASE WHEN cardinality(names) < 2 THEN names
                ELSE ARRAY(SELECT DISTINCT name FROM unnest(names) AS name ORDER BY name LIMIT 2000) END;
END
$$;

-- name: memory_identifiers
-- The identifiers of a memory, lower case: those in its content, and of its id the whole and the parts of a path (a file
-- name with and without its ending). Of an id no bare number counts: "2021" is no name of a memory.
CREATE FUNCTION memory_identifiers(id text, content text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    names CONSTANT text[] := identifiers_of(content);
BEGIN
    IF id !~ '[^[:alnum:]_-]' THEN  -- one part: the way without a query
        RETURN CASE WHEN id !~ '^[[:digit:]]+$' AND is_identifier(id) THEN names || lower(id) ELSE names END;
    END IF;
    RETURN names || ARRAY(
        SELECT DISTINCT lower(part)
        FROM unnest(id || regexp_split_to_array(id, '[/:@#\\?&=%+~]+') || regexp_split_to_array(id, '[^[:alnum:]_-]+')) AS part
        WHERE part !~ '^[[:digit:]]+$' AND is_identifier(part)
        ORDER BY 1);
END
$$;

-- name: query_identifiers
-- The identifiers of a query, lower case, as typed only: "ERR-4471" is asked for, not "4471". A query that is one
-- token counts as an identifier whatever it looks like. At most 16.
CREATE FUNCTION query_identifiers(query_text text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT  -- plpgsql keeps its plan; an SQL function would be planned in every search
    SET search_path FROM CURRENT
    AS $$
DECLARE
    only_token CONSTANT text := CASE WHEN length(query_text) <= 300 THEN btrim(query_text) END;
BEGIN
    RETURN (
        SELECT coalesce(array_agg(DISTINCT found.name), '{}')
        FROM (SELECT lower(token) AS name
              FROM tokens_as_typed(folded_text(query_text)) AS token
              WHERE (token ~ '[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-.*-' AND is_identifier(token)  -- the sieve of identifiers_of
                     AND token !~ '^[[:digit:]]+[[:alpha:]]{1,3}$')  -- in a sentence "15m" and "5xx" are quantities
                 OR (length(token) >= 3 AND only_token = token)
              LIMIT 16) AS found);
END
$$;

-- name: identifier_parts
-- The parts of paths and addresses that are identifiers of their own, for names that no memory carries as typed: the
-- UUID at the end of an address, the file name of a path. Never a bare number: "4471" of "ERR:4471" is another name.
CREATE FUNCTION identifier_parts(names text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$
    SELECT coalesce(array_agg(DISTINCT part), '{}')
    FROM unnest(names) AS name, regexp_split_to_table(name, '[/:@#\\?&=%+~]+') AS part
    WHERE part <> name AND length(part) >= 6 AND part !~ '^[[:digit:]]+$' AND is_identifier(part)
    $$;

-- name: exact_query
-- The whole query as a tsquery: all of its words; "phrases" and -exclusions work. Never raises: it reads 8,000
-- characters at most, and a run of dashes as one (each would be a NOT, on a stack of 32).
CREATE FUNCTION exact_query(config text, query_text text) RETURNS tsquery
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    SET client_min_messages = warning  -- a query of stop words only is no news
    AS $$
DECLARE
    words text := regexp_replace(split_compounds(folded_text(left(query_text, 8000))), '-(?:\s*-)+', '-', 'g');
    asked tsquery;
BEGIN
    IF has_unsplit_script(words) THEN
        words := unsplit_bigrams(words, false);
    END IF;
    IF config LIKE '%+unaccent' THEN
        words := unaccent('unaccent'::regdictionary, words);
    END IF;
    asked := websearch_to_tsquery(split_part(config, '+', 1)::regconfig, words);
    IF has_unsplit_script(words) THEN
        -- A single character is the start of a pair.
        asked := regexp_replace(asked::text, $re$'([\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])'(?!:)$re$, $to$'\1':*$to$, 'g')::tsquery;
    END IF;
    RETURN asked;
END
$$;

RESET ROLE;
