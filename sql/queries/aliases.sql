-- name: merge_alias_groups
-- One row: the number of the group that these names belong to from now on; groups that already hold one are merged.
WITH given AS (
    SELECT DISTINCT folded_name(g.name) AS folded FROM unnest(%(names)s::text[]) AS g(name)
), known AS (
    SELECT a.group_no FROM aliases AS a JOIN given AS g ON g.folded = a.folded WHERE a.org = scope_org() AND a.key IS NULL
), target AS (
    -- a new group takes its number from its first name, which no other group of the organisation holds
    SELECT coalesce((SELECT min(k.group_no) FROM known AS k), hashtextextended((SELECT min(g.folded) FROM given AS g), 0)) AS group_no
), merged AS (
    UPDATE aliases AS a SET group_no = (SELECT t.group_no FROM target AS t)
    WHERE a.org = scope_org() AND a.key IS NULL AND a.group_no IN (SELECT k.group_no FROM known AS k)
)
SELECT t.group_no FROM target AS t

-- name: insert_aliases
-- No rows: these names, in that group of the organisation. Of nobody where an import brings what a forgotten user had given.
INSERT INTO aliases AS a (org, folded, name, group_no, owner, shared)
SELECT DISTINCT ON (folded_name(g.name)) scope_org(), folded_name(g.name), g.name, %(group_no)s::bigint, coalesce(scope_user(), ''), true
FROM unnest(%(names)s::text[]) AS g(name)
WHERE folded_name(g.name) <> ''
ON CONFLICT (org, folded) WHERE key IS NULL DO NOTHING

-- name: remove_alias
-- One row per name removed from the organisation's groups.
DELETE FROM aliases AS a WHERE a.org = scope_org() AND a.key IS NULL AND a.folded = folded_name(%(alias)s::text) RETURNING a.name

-- name: list_aliases
-- One row per group of the organisation: its names.
SELECT array_agg(a.name ORDER BY a.alias) AS names
FROM aliases AS a WHERE a.org = scope_org() AND a.key IS NULL
GROUP BY a.group_no
ORDER BY min(a.alias)

-- name: usable_names
-- One row per name given that holds at least one letter or digit.
SELECT g.name FROM unnest(%(names)s::text[]) AS g(name) WHERE folded_name(g.name) <> ''
