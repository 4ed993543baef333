//! Clients that ask for too much, or leave.

use crate::server::{SESSION, Server, range, request};
use onefold_spark_connect::Limits;
use spark_connect_proto::get_status_request::OperationStatusRequest;
use spark_connect_proto::get_status_response::operation_status::OperationState;
use spark_connect_proto::{
    CloneSessionRequest, ConfigRequest, GetStatusRequest, ReleaseSessionRequest, UserContext,
    config_request, execute_plan_request,
};
use spark_connect_proto::{KeyValue, ReattachOptions};

fn user() -> Option<UserContext> {
    Some(UserContext { user_id: "u".to_owned(), ..UserContext::default() })
}

fn setting(session: &str, operation: config_request::operation::OpType) -> ConfigRequest {
    ConfigRequest {
        session_id: session.to_owned(),
        user_context: user(),
        operation: Some(config_request::Operation { op_type: Some(operation) }),
        ..ConfigRequest::default()
    }
}

fn get(session: &str, key: &str) -> ConfigRequest {
    let get = config_request::Get { keys: vec![key.to_owned()] };
    setting(session, config_request::operation::OpType::Get(get))
}

fn set(session: &str, key: &str, value: &str) -> ConfigRequest {
    let pair = KeyValue { key: key.to_owned(), value: Some(value.to_owned()) };
    let set = config_request::Set { pairs: vec![pair], silent: None };
    setting(session, config_request::operation::OpType::Set(set))
}

fn id(number: usize) -> String {
    format!("00112233-4455-6677-8899-{number:012}")
}

#[test]
fn a_client_that_leaves_in_mid_stream_ends_its_operation() {
    let server = Server::new();
    let mut client = server.client();
    let mut asked = request(range(1 << 24));
    asked.operation_id = Some(id(7));
    server.wait(async {
        let mut answer = client.execute_plan(asked).await.unwrap().into_inner();
        answer.message().await.unwrap().unwrap();
    });
    // The stream is dropped: nobody reads the rest.
    server.wait(async {
        loop {
            let asked = GetStatusRequest {
                session_id: SESSION.to_owned(),
                user_context: user(),
                operation_status: Some(OperationStatusRequest {
                    operation_ids: vec![id(7)],
                    ..OperationStatusRequest::default()
                }),
                ..GetStatusRequest::default()
            };
            let status = client.get_status(asked).await.unwrap().into_inner();
            if status.operation_statuses[0].state != OperationState::Running as i32 {
                return;
            }
        }
    });
    server.assert_alive();
}

#[test]
fn a_flood_of_sessions_is_refused_with_the_setting_to_raise() {
    let server = Server::with(Limits { sessions: 3, ..Limits::default() });
    let mut client = server.client();
    server.wait(async {
        for number in 0..3 {
            client.config(get(&id(number), "spark.sql.ansi.enabled")).await.unwrap();
        }
        let error = client.config(get(&id(3), "spark.sql.ansi.enabled")).await.unwrap_err();
        assert!(error.message().contains("onefold.connect.maxSessions"), "{error}");
        let release = ReleaseSessionRequest {
            session_id: id(0),
            user_context: user(),
            ..ReleaseSessionRequest::default()
        };
        client.release_session(release).await.unwrap();
        client.config(get(&id(3), "spark.sql.ansi.enabled")).await.unwrap();
    });
}

#[test]
fn a_flood_of_operations_is_refused_with_the_setting_to_raise() {
    let server = Server::with(Limits { operations: 2, ..Limits::default() });
    let mut client = server.client();
    server.wait(async {
        // Reattachable operations stay until they are released.
        let kept = || {
            let option = execute_plan_request::request_option::RequestOption::ReattachOptions(
                ReattachOptions { reattachable: true },
            );
            let mut asked = request(range(1));
            asked.request_options =
                vec![execute_plan_request::RequestOption { request_option: Some(option) }];
            asked
        };
        for _ in 0..2 {
            let mut answer = client.execute_plan(kept()).await.unwrap().into_inner();
            while answer.message().await.unwrap().is_some() {}
        }
        let error = client.execute_plan(kept()).await.unwrap_err();
        assert!(error.message().contains("onefold.connect.maxOperations"), "{error}");
    });
}

#[test]
fn operations_that_cannot_be_attached_again_do_not_pile_up() {
    let server = Server::with(Limits { operations: 5, ..Limits::default() });
    for _ in 0..20 {
        server.assert_alive();
    }
}

#[test]
fn a_clone_has_the_settings_of_its_original_and_goes_its_own_way() {
    let server = Server::new();
    let mut client = server.client();
    let key = "spark.sql.shuffle.partitions";
    server.wait(async {
        client.config(set(&id(0), key, "7")).await.unwrap();
        let asked = |target: Option<String>| CloneSessionRequest {
            session_id: id(0),
            user_context: user(),
            new_session_id: target,
            ..CloneSessionRequest::default()
        };
        let cloned = client.clone_session(asked(Some(id(1)))).await.unwrap().into_inner();
        assert_eq!((cloned.session_id, cloned.new_session_id), (id(0), id(1)));
        client.config(set(&id(0), key, "8")).await.unwrap();
        let values = client.config(get(&id(1), key)).await.unwrap().into_inner();
        assert_eq!(values.pairs[0].value.as_deref(), Some("7"));
        let named = client.clone_session(asked(None)).await.unwrap().into_inner();
        assert_ne!(named.new_session_id, id(0));
        for (target, class) in [(id(1), "ALREADY_EXISTS"), ("x".to_owned(), "FORMAT")] {
            let error = client.clone_session(asked(Some(target))).await.unwrap_err();
            let wanted = format!("INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_{class}");
            assert!(error.message().contains(&wanted), "{error}");
        }
    });
}

#[test]
fn messages_beyond_the_limit_are_refused() {
    let server = Server::new();
    let channel = server.channel();
    assert!(server.call(&channel, "Config", vec![0; (128 << 20) + 1]).is_err());
    server.assert_alive();
}
