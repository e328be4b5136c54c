//! What joining and leaving leaves behind, and what a room costs. A binary of its own: the memory is only its own.

mod joins;
mod rooms;

use std::process::ExitCode;

/// Passes on to the system's allocator, and counts while a test asks for it.
#[global_allocator]
static ALLOCATIONS: dhat::Alloc = dhat::Alloc;

async fn fifty_joins_and_leaves_leave_nothing() {
    joins::leave_nothing(50).await;
}

async fn forty_idle_rooms_stay_small() {
    rooms::stay_small(10, 40).await;
}

fn main() -> ExitCode {
    // One at a time, or they would measure each other.
    sotto_harness::run(
        1,
        sotto_harness::tests![fifty_joins_and_leaves_leave_nothing, forty_idle_rooms_stay_small],
    )
}
