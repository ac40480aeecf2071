//! What is left of what broke: no descriptor. Counted in a process of its own, where one test runs
//! after the other.

const COUNTS: &str = "AGENT_HUB_KIT_COUNTS";

#[test]
fn no_fault_leaves_a_descriptor() {
    if std::env::var_os(COUNTS).is_some() {
        return;
    }
    let tests = [
        "cancel::a_dropped_stream_cancels_its_call_once_and_then_hangs_up",
        "cancel::a_reply_is_hung_up_also_if_the_cancel_gets_no_answer",
        "cancel::dropping_the_last_clone_ends_everything_at_once",
        "connect::a_server_that_does_not_answer_is_given_up_in_time",
        "faults::a_head_without_end_is_refused",
        "faults::a_reset_ends_the_call_and_not_the_connection",
        "faults::a_server_that_half_closes_has_ended_its_reply",
        "faults::a_server_that_restarts_during_a_call_ends_that_call_alone",
        "faults::a_server_that_vanishes_into_a_black_hole_costs_its_own_calls_their_time_alone",
        "faults::idle_connections_are_closed_with_the_hub",
        "sessions::a_server_that_was_restarted_between_two_calls_is_not_missed",
        "sessions::a_server_that_was_restarted_is_used_again",
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

/// The descriptors that this process has open; 0 where that is not told or not asked.
pub fn held() -> usize {
    match std::env::var_os(COUNTS) {
        Some(_) => std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        None => 0,
    }
}

/// Waits until there are no more than that.
pub async fn no_more_than(before: usize) {
    while held() > before {
        tokio::task::yield_now().await;
    }
}
