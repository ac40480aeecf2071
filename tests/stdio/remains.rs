//! What is left of children, however they end: no task, no descriptor, no process. Counted in a
//! process of its own, where one test runs after the other.

use tokio::runtime::Handle;

const COUNTS: &str = "STDIO_TEST_COUNTS";

#[test]
fn no_end_of_a_child_leaves_a_task_a_descriptor_or_a_process() {
    if counts() {
        return;
    }
    let tests = [
        "ends::a_child_that_closes_its_stdout_is_stopped_at_once",
        "ends::a_child_that_ends_before_the_opening_is_an_error_that_tells_all",
        "ends::a_child_that_is_stopped_for_a_while_goes_on",
        "ends::a_child_that_refuses_the_opening_is_ended",
        "ends::a_stopped_child_keeps_no_call_beyond_its_time_and_no_close_beyond_its_stages",
        "messages::a_flood_on_stderr_delays_no_answer",
        "restarts::a_child_that_dies_of_a_cancel_is_started_again",
        "starting::what_cannot_be_started_is_an_error_at_once",
        "stopping::a_dropped_close_ends_the_child_at_once",
        "stopping::a_dropped_connect_leaves_no_process",
        "stopping::the_last_clone_takes_its_children_along",
        "stopping::what_a_child_started_ends_with_it",
    ];
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(tests)
        .args(["--exact", "--test-threads", "1"])
        .env(COUNTS, "1")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stdout).unwrap();
    let all = format!("{} passed", tests.len());
    assert!(said.contains(&all), "{said}");
}

fn counts() -> bool {
    std::env::var_os(COUNTS).is_some()
}

/// The tasks, the open descriptors and the children of this process; nothing where nobody asks.
pub async fn held() -> [usize; 3] {
    if !counts() {
        return [0; 3];
    }
    // What a runtime needs for children, it keeps from the first one on.
    let first = tokio::process::Command::new("true").status().await;
    assert!(first.unwrap().success());
    count()
}

fn count() -> [usize; 3] {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let tasks = Handle::current().metrics().num_alive_tasks();
    [tasks, descriptors, crate::process::children()]
}

/// Waits until no more is held than that.
pub async fn nothing_more_than(before: [usize; 3]) {
    while counts() && count().iter().zip(before).any(|(now, then)| *now > then) {
        tokio::task::yield_now().await;
    }
}
