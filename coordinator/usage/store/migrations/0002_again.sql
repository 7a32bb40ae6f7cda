DELETE FROM usage_open WHERE state <> 0;
ALTER TABLE usage_open DROP COLUMN state;
ALTER TABLE usage_open DROP COLUMN until_ns;

UPDATE usage_rows SET expired = expired + late;

ALTER TABLE usage_mark ADD COLUMN again_offset BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_mark ADD COLUMN again_epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_mark ADD COLUMN again_next BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_mark ADD COLUMN again_doubts BIGINT NOT NULL DEFAULT 0;
UPDATE usage_mark SET again_offset = journal_offset + 1, again_epoch = epoch, again_next = next_record, again_doubts = doubts;
UPDATE usage_mark SET again_offset = 0 WHERE journal_offset < 0;
ALTER TABLE usage_mark DROP COLUMN doubts;
