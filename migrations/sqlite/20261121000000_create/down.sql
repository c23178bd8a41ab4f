DROP TABLE api_keys;
DROP TABLE deliveries;
DROP TABLE uploads;
DROP TABLE documents;
DROP TABLE file_numbers;
DROP TABLE orders;
