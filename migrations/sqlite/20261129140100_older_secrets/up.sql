-- The secrets before `previous_secret` that still sign, the newest first: a JSON array [[bytes, microseconds
-- since 1970 of its end], …]. NULL: none. An earlier version of the program signs with the two columns alone.
ALTER TABLE webhook_endpoints ADD COLUMN earlier_secrets TEXT;
