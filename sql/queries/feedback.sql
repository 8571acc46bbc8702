-- name: vote
-- One row: how the memory stands after the vote; none where no memory of that id is visible.
SELECT v.useful, v.misleading, v.multiplier FROM vote(%(id)s::text, %(useful)s::boolean, %(recall_id)s::text) AS v

-- name: misled
-- One row per visible, live memory that misled twice or more, and more often than it was useful in the last 90 days: worth
-- a look. Most misleading first.
SELECT m.id, m.owner, left(m.content, 1200) AS content, r.useful, r.misleading, r.multiplier
FROM reinforcement AS r JOIN memories AS m ON m.org = scope_org() AND m.key = r.key
WHERE r.org = scope_org() AND r.misleading >= 2 AND r.misleading > r.useful
  AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY r.misleading - r.useful DESC, m.created_at DESC, m.key DESC
LIMIT %(limit)s::integer
