-- For the caller's transaction: statements are planned for the filters that they are asked with. A plan for any filter
-- would walk the names of a million jobs for a label that three of them have.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true)
