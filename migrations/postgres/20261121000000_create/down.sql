DROP TABLE api_keys;
DROP TABLE deliveries;
DROP TABLE documents;
DROP FUNCTION adopt_upload;
DROP TABLE uploads;
DROP TABLE file_numbers;
DROP TABLE orders;
