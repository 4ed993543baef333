//! Makes the server side of Spark Connect's service over the official crate's messages, which
//! brings messages and the client only.

use tonic_build::manual::{Builder, Method, Service};

fn method(name: &str, route: &str, request: &str, response: &str, streams: (bool, bool)) -> Method {
    let mut method = Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("::spark_connect_proto::{request}"))
        .output_type(format!("::spark_connect_proto::{response}"))
        .codec_path("crate::message::Codec");
    if streams.0 {
        method = method.client_streaming();
    }
    if streams.1 {
        method = method.server_streaming();
    }
    method.build()
}

fn main() {
    let (unary, down, up) = ((false, false), (false, true), (true, false));
    let methods = [
        ("execute_plan", "ExecutePlan", "ExecutePlanRequest", "ExecutePlanResponse", down),
        ("analyze_plan", "AnalyzePlan", "AnalyzePlanRequest", "AnalyzePlanResponse", unary),
        ("config", "Config", "ConfigRequest", "ConfigResponse", unary),
        ("add_artifacts", "AddArtifacts", "AddArtifactsRequest", "AddArtifactsResponse", up),
        (
            "artifact_status",
            "ArtifactStatus",
            "ArtifactStatusesRequest",
            "ArtifactStatusesResponse",
            unary,
        ),
        ("interrupt", "Interrupt", "InterruptRequest", "InterruptResponse", unary),
        (
            "reattach_execute",
            "ReattachExecute",
            "ReattachExecuteRequest",
            "ExecutePlanResponse",
            down,
        ),
        (
            "release_execute",
            "ReleaseExecute",
            "ReleaseExecuteRequest",
            "ReleaseExecuteResponse",
            unary,
        ),
        (
            "release_session",
            "ReleaseSession",
            "ReleaseSessionRequest",
            "ReleaseSessionResponse",
            unary,
        ),
        (
            "fetch_error_details",
            "FetchErrorDetails",
            "FetchErrorDetailsRequest",
            "FetchErrorDetailsResponse",
            unary,
        ),
        ("clone_session", "CloneSession", "CloneSessionRequest", "CloneSessionResponse", unary),
        ("get_status", "GetStatus", "GetStatusRequest", "GetStatusResponse", unary),
    ];
    let mut service = Service::builder().name("SparkConnectService").package("spark.connect");
    for (name, route, request, response, streams) in methods {
        service = service.method(method(name, route, request, response, streams));
    }
    Builder::new().build_client(false).compile(&[service.build()]);
}
