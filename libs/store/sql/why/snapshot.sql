-- Lets every statement of the transaction see the same moment. The first one of it.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
