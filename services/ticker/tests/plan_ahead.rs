//! Planning: each occurrence of the window gets one run and one place in the queue, whoever plans how often.

mod support;

use chrono::TimeDelta;
use model::policy::{MisfirePolicy, OverlapPolicy};
use support::{Cell, each_second};

#[tokio::test]
async fn each_occurrence_of_two_windows_gets_one_run_in_the_queue() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let before = cell.now().await;
    let summary = ticker.plan().await;
    assert!((119..=122).contains(&summary.planned), "{summary:?}");
    let through = before + TimeDelta::seconds(119);
    assert_eq!(cell.unaccounted(job, before, through).await, 0);
    assert_eq!(
        cell.count("SELECT count(*) FROM run").await,
        cell.count("SELECT count(*) FROM run_queue").await
    );
    let wrong = "SELECT count(*) FROM run JOIN run_queue q USING (job_id, scheduled_for) \
                 WHERE run.term <> 1 OR q.start_by <> q.due_at + interval '10 seconds' OR NOT q.exclusive OR q.late";
    assert_eq!(cell.count(wrong).await, 0);
    assert_eq!(ticker.plan().await.planned, 0, "the cursor is past the window");
    cell.pass(61).await;
    assert!(ticker.plan().await.planned > 0, "and due again when the window has moved on");
    assert_eq!(cell.unaccounted(job, before, before + TimeDelta::seconds(179)).await, 0);
}
