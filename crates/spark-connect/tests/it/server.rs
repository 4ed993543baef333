//! A server in this process, and calls with any bytes.

use onefold_engine::{Connectors, Session};
use onefold_spark_connect::{Limits, ServerConfig, THREAD_STACK, serve};
use prost::Message;
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::plan::OpType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::spark_connect_service_client::SparkConnectServiceClient;
use spark_connect_proto::{
    ExecutePlanRequest, ExecutePlanResponse, Plan, Range, Relation, UserContext,
};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// No answer to anything here takes longer, however busy the machine is.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The calls of the service, and whether their requests are streams.
pub(crate) const CALLS: [(&str, bool); 12] = [
    ("ExecutePlan", false),
    ("AnalyzePlan", false),
    ("Config", false),
    ("AddArtifacts", true),
    ("ArtifactStatus", false),
    ("Interrupt", false),
    ("ReattachExecute", false),
    ("ReleaseExecute", false),
    ("ReleaseSession", false),
    ("FetchErrorDetails", false),
    ("CloneSession", false),
    ("GetStatus", false),
];

/// A session id that all of a test's requests may share.
pub(crate) const SESSION: &str = "00112233-4455-6677-8899-aabbccddeeff";

/// A server that ends with this.
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<onefold_types::Result<()>>>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Server::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(THREAD_STACK)
            .enable_all()
            .build()
            .unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap());
        config.limits = limits;
        config.python = false;
        let factory = Arc::new(|| {
            Session::builder(Connectors {
                sources: &[],
                sinks: &[],
                tables: &[],
                registry: None,
                calls: None,
            })
            .threads(1)
            .build()
        });
        let served = runtime.spawn(async move {
            let ready = |address| {
                let _ = tell.send(address);
            };
            serve(config, factory, ready, async {
                let _ = stopped.await;
            })
            .await
        });
        let address = runtime.block_on(told).unwrap();
        Server { runtime, address, stop: Some(stop), served: Some(served) }
    }

    /// Waits for what must not take for ever.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::timeout(ANSWER_WITHIN, work).await.expect("no answer in time")
        })
    }

    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        self.wait(endpoint.connect()).unwrap()
    }

    pub(crate) fn client(&self) -> SparkConnectServiceClient<Channel> {
        SparkConnectServiceClient::new(self.channel())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// Sends bytes as the request of a call, and reads all of its answer: the first error, if any.
    pub(crate) fn call(&self, channel: &Channel, name: &str, bytes: Vec<u8>) -> Result<(), Status> {
        let streams = CALLS.iter().any(|(known, streams)| *known == name && *streams);
        let path = format!("/spark.connect.SparkConnectService/{name}");
        let path = PathAndQuery::from_maybe_shared(path).unwrap();
        let mut grpc =
            tonic::client::Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
        self.wait(async move {
            grpc.ready().await.unwrap();
            let request = futures::stream::iter(vec![bytes]);
            let mut answer = if streams {
                let answer = grpc.client_streaming(Request::new(request), path, Raw).await;
                return answer.map(drop);
            } else {
                grpc.streaming(Request::new(request), path, Raw).await?.into_inner()
            };
            while answer.message().await?.is_some() {}
            Ok(())
        })
    }

    /// The rows and the last error of a plan.
    pub(crate) fn rows(&self, relation: Relation) -> Result<i64, Status> {
        let mut client = self.client();
        self.wait(async move {
            let mut answer = client.execute_plan(request(relation)).await?.into_inner();
            let mut rows = 0;
            while let Some(response) = answer.message().await? {
                rows += rows_of(&response);
            }
            Ok(rows)
        })
    }

    /// Fails unless the server still does what it is for.
    pub(crate) fn assert_alive(&self) {
        assert_eq!(self.rows(range(10)).unwrap(), 10);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(served) = self.served.take() {
            let ended =
                self.runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, served).await });
            if !std::thread::panicking() {
                ended.expect("the server does not end").unwrap().unwrap();
            }
        }
    }
}

fn rows_of(response: &ExecutePlanResponse) -> i64 {
    match &response.response_type {
        Some(ResponseType::ArrowBatch(batch)) => batch.row_count,
        _ => 0,
    }
}

/// A request to execute a plan.
pub(crate) fn request(relation: Relation) -> ExecutePlanRequest {
    ExecutePlanRequest {
        session_id: SESSION.to_owned(),
        user_context: Some(UserContext { user_id: "u".to_owned(), ..UserContext::default() }),
        plan: Some(Plan { op_type: Some(OpType::Root(relation)) }),
        ..ExecutePlanRequest::default()
    }
}

pub(crate) fn of(kind: RelType) -> Relation {
    Relation { common: None, rel_type: Some(kind) }
}

/// `spark.range(end)`.
pub(crate) fn range(end: i64) -> Relation {
    of(RelType::Range(Range { start: None, end, step: 1, num_partitions: None }))
}

/// A field with a length, as bytes of a message.
pub(crate) fn field(number: u64, inner: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(inner.len() + 8);
    prost::encoding::encode_varint((number << 3) | 2, &mut bytes);
    prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
    bytes.extend_from_slice(inner);
    bytes
}

/// The same field in itself again and again: those with these numbers, the innermost first, so many
/// times around what is inside.
pub(crate) fn nested(numbers: &[u64], count: usize, inner: &[u8]) -> Vec<u8> {
    let (mut heads, mut length) = (Vec::new(), inner.len());
    for _ in 0..count {
        for number in numbers {
            let mut head = Vec::with_capacity(8);
            prost::encoding::encode_varint((number << 3) | 2, &mut head);
            prost::encoding::encode_varint(length as u64, &mut head);
            length += head.len();
            heads.push(head);
        }
    }
    heads.reverse();
    [heads.concat(), inner.to_vec()].concat()
}

/// The bytes of a request to execute the relation with these bytes.
pub(crate) fn raw_request(relation: &[u8]) -> Vec<u8> {
    let mut bytes = request(Relation::default());
    bytes.plan = None;
    let mut bytes = bytes.encode_to_vec();
    bytes.extend(field(3, &field(1, relation)));
    bytes
}

/// Messages as the bytes that they are.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        use prost::bytes::Buf;
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(bytes.to_vec()))
    }
}
