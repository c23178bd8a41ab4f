-- Mails of events that were not dispatched are never sent.
DROP TABLE events;
