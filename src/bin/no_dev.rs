//! Where no socket can be handed to a child.

use crate::args::DevArgs;
use crate::failure::Failure;

pub(crate) struct Plan;

impl Plan {
    pub(crate) fn new(_: DevArgs) -> Result<Self, Failure> {
        Err(Failure::usage(
            "`agent-hub dev` hands its socket to each server it starts, which only Unix can",
            "start the server itself, again after each build",
        ))
    }
}

pub(crate) async fn run(_: Plan) -> Result<(), Failure> {
    Ok(())
}
