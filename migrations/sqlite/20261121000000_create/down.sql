DROP TABLE api_keys;
DROP TABLE follow_ups;
DROP TABLE uploads;
DROP TABLE documents;
DROP TABLE file_numbers;
DROP TABLE orders;
