-- name: retext_some
-- No rows, but a count: up to `limit` memories whose text is indexed under another configuration, indexed under this one.
UPDATE memories AS m SET text_config = %(config)s::text
FROM (SELECT i.org, i.key FROM memories AS i WHERE i.text_config <> %(config)s::text
      ORDER BY i.org, i.key LIMIT %(limit)s::integer FOR UPDATE SKIP LOCKED) AS chosen
WHERE m.org = chosen.org AND m.key = chosen.key

-- name: set_result_budget
-- Bounds a whole result, in characters of its rows as JSON.
UPDATE settings SET result_budget = %(characters)s::integer
