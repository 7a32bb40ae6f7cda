CREATE TABLE usage_rows (
	day           TEXT NOT NULL,
	group_id      TEXT NOT NULL,
	agent_id      TEXT NOT NULL,
	provider      TEXT NOT NULL,
	model         TEXT NOT NULL,
	source        TEXT NOT NULL,
	requests      BIGINT NOT NULL,
	input_tokens  BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	total_tokens  BIGINT NOT NULL,
	cost_micro    BIGINT NOT NULL,
	settled       BIGINT NOT NULL,
	released      BIGINT NOT NULL,
	expired       BIGINT NOT NULL,
	late          BIGINT NOT NULL,
	PRIMARY KEY (day, group_id, agent_id, provider, model, source)
);
CREATE INDEX usage_rows_by_group ON usage_rows (group_id, day);

CREATE TABLE usage_open (
	id       TEXT NOT NULL PRIMARY KEY,
	day      TEXT NOT NULL,
	group_id TEXT NOT NULL,
	agent_id TEXT NOT NULL,
	provider TEXT NOT NULL,
	model    TEXT NOT NULL,
	source   TEXT NOT NULL,
	state    BIGINT NOT NULL,
	until_ns BIGINT NOT NULL
);

CREATE TABLE usage_gaps (
	from_ns        BIGINT NOT NULL,
	to_ns          BIGINT NOT NULL,
	journal_offset BIGINT NOT NULL,
	lost           BIGINT NOT NULL,
	reason         TEXT NOT NULL
);

CREATE TABLE usage_mark (
	one            BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
	journal_offset BIGINT NOT NULL,
	checksum       BIGINT NOT NULL,
	epoch          BIGINT NOT NULL,
	next_record    BIGINT NOT NULL,
	doubts         BIGINT NOT NULL,
	since_ns       BIGINT NOT NULL,
	at_ns          BIGINT NOT NULL,
	generation     BIGINT NOT NULL
);
INSERT INTO usage_mark VALUES (1, -1, 0, 0, 1, 0, 0, 0, 0);
