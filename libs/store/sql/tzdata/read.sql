-- Which timezone database the plans are made with, and through which job; no row: nothing was planned yet.
SELECT version, reached FROM tzdata
