-- The journal in PostgreSQL: one append-only table.

CREATE TABLE events (
  shard int2 NOT NULL,
  -- 1, 2, 3 … in the shard, without gaps, in the order in which commits become visible.
  sequence int8 NOT NULL,
  stream text COLLATE "C" NOT NULL,
  -- 1, 2, 3 … in the stream.
  version int8 NOT NULL,
  stored_at timestamptz NOT NULL,
  types text NOT NULL,
  schemas text NOT NULL,
  correlation text NOT NULL,
  causation text NOT NULL,
  commit_id text NOT NULL,
  prev bytea NOT NULL,
  hash bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (shard, sequence),
  UNIQUE (stream, version)
-- Bodies of some kilobytes lie in the row itself, and nothing is ever updated.
) WITH (toast_tuple_target = 8160, fillfactor = 100);

-- Stores those of the given commits that follow what is stored, and returns them; a commit that does not follow is left out and
-- costs the others nothing. There is at most one commit of a stream.
--
-- The locks let one transaction at a time append to a shard, so that sequences have no gaps and readers see them in order. They
-- are taken in order, so that no two transactions wait for each other.
CREATE FUNCTION append(
  p_shard int2[], p_stream text[], p_version int8[], p_expected int8[], p_types text[], p_schemas text[],
  p_correlation text[], p_causation text[], p_commit_id text[], p_prev bytea[], p_hash bytea[], p_body bytea[]
) RETURNS TABLE (stored_stream text, stored_sequence int8, stored_time timestamptz) LANGUAGE plpgsql AS $$
DECLARE
  locked int2;
  -- By shard, counted from 1.
  heads int8[];
BEGIN
  FOR locked IN SELECT DISTINCT s FROM unnest(p_shard) AS s ORDER BY s LOOP
    PERFORM pg_advisory_xact_lock(1, locked);
    -- Once a shard: while rows are inserted, each look would pass over all that are there already and not visible yet.
    heads[locked + 1] := (SELECT coalesce(max(e.sequence), 0) FROM events e WHERE e.shard = locked);
  END LOOP;
  -- A statement of its own, which sees what was committed while the locks were waited for.
  RETURN QUERY
  INSERT INTO events AS stored (
    shard, sequence, stream, version, stored_at, types, schemas, correlation, causation, commit_id, prev, hash, body
  )
  SELECT
    c.shard, heads[c.shard + 1] + row_number() OVER (PARTITION BY c.shard ORDER BY c.number),
    c.stream, c.version, clock_timestamp(), c.types, c.schemas, c.correlation, c.causation, c.commit_id, c.prev, c.hash, c.body
  FROM unnest(
    p_shard, p_stream, p_version, p_expected, p_types, p_schemas, p_correlation, p_causation, p_commit_id, p_prev, p_hash, p_body
  ) WITH ORDINALITY AS c (
    shard, stream, version, expected, types, schemas, correlation, causation, commit_id, prev, hash, body, number
  )
  LEFT JOIN LATERAL (
    SELECT e.version, e.sequence, e.hash FROM events e WHERE e.stream = c.stream ORDER BY e.version DESC LIMIT 1
  ) AS last ON true
  WHERE CASE
    WHEN c.version = 1 THEN last.version IS NULL
    ELSE last.version = c.version - 1 AND last.sequence = c.expected AND last.hash = c.prev
  END
  RETURNING stored.stream, stored.sequence, stored.stored_at;
END
$$;
