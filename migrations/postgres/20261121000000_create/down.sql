DROP TABLE api_keys;
DROP TABLE follow_ups;
DROP TABLE documents;
DROP FUNCTION adopt_upload;
DROP TABLE uploads;
DROP TABLE file_numbers;
DROP TABLE orders;
