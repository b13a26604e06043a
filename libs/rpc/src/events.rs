//! The methods that stream to whoever calls the API, and where REST serves them: as server-sent events, one for each
//! message, its data the message in JSON.
//!
//! Invariant: every streaming method is here, but the one that is for workers alone; so each is served and described.
//! Deliberately not here: serving them. A gateway that calls methods by their descriptors can't; the registry does it,
//! under these paths.

/// A method and its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// The method's full name.
    pub(crate) rpc: &'static str,
    /// As `google.api.http` would have it, for GET.
    pub path: &'static str,
}

/// What the attempts of a run write.
pub const OUTPUT: Events = Events {
    rpc: "escapement.v1.RunService.WatchOutput",
    path: "/v1/jobs/{job}/runs/{scheduled_for}/output",
};

/// What becomes of runs.
pub const RUNS: Events = Events { rpc: "escapement.v1.RunService.WatchRuns", path: "/v1/runs:watch" };

pub(crate) const ALL: [Events; 2] = [OUTPUT, RUNS];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_streaming_method_but_that_of_workers_is_served_as_events() {
        let services =
            crate::descriptors().services().filter(|service| service.package_name() == "escapement.v1");
        let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
        let streaming = methods.filter(|rpc| rpc.is_server_streaming() && !rpc.is_client_streaming());
        let streaming: BTreeSet<String> = streaming.map(|rpc| rpc.full_name().to_owned()).collect();
        assert_eq!(streaming, ALL.iter().map(|events| events.rpc.to_owned()).collect());
    }
}
