//! A client of Spark Connect that reads a result and throws it away: what the server and the way to it
//! take, without what a client makes of the rows.

use crate::Failure;
use crate::measure::{Report, median, report};
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::plan::OpType;
use spark_connect_proto::read::{DataSource, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{
    ExecutePlanRequest, ExecutePlanResponse, Plan, Read, Relation, UserContext,
};
use std::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const EXECUTE: &str = "/spark.connect.SparkConnectService/ExecutePlan";
/// Bytes of the largest message, as PySpark has it.
const MESSAGE_MAX: usize = 128 << 20;
/// Times that the rows are read; the first does not count.
const TIMES: usize = 4;

/// Reads the rows of a folder of Parquet files through a server, a few times.
pub fn drain(remote: &str, folder: &str) -> Result<(), Failure> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let address = remote.replacen("sc://", "http://", 1);
        let channel = Endpoint::from_shared(address)?.http2_adaptive_window(true).connect().await?;
        let mut client = Grpc::new(channel).max_decoding_message_size(MESSAGE_MAX);
        let (mut times, mut rows) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let started = Instant::now();
            rows = read(&mut client, folder).await?;
            times.push(started.elapsed().as_secs_f64());
        }
        let seconds = median(times.get(1..).unwrap_or_default());
        report(&Report { seconds, rows, ..Report::with_peak() })
    })
}

async fn read(client: &mut Grpc<Channel>, folder: &str) -> Result<u64, Failure> {
    client.ready().await?;
    let codec = ProstCodec::<ExecutePlanRequest, ExecutePlanResponse>::default();
    let request = tonic::Request::new(request(folder));
    let answer = client.server_streaming(request, PathAndQuery::from_static(EXECUTE), codec);
    let mut answer = answer.await?.into_inner();
    let mut rows = 0;
    while let Some(response) = answer.message().await? {
        if let Some(ResponseType::ArrowBatch(batch)) = response.response_type {
            rows += u64::try_from(batch.row_count)?;
        }
    }
    Ok(rows)
}

fn request(folder: &str) -> ExecutePlanRequest {
    let source = DataSource {
        format: Some("parquet".to_owned()),
        paths: vec![folder.to_owned()],
        ..DataSource::default()
    };
    let read = Read { read_type: Some(ReadType::DataSource(source)), is_streaming: false };
    let relation = Relation { common: None, rel_type: Some(RelType::Read(read)) };
    ExecutePlanRequest {
        session_id: "5a4e4a0e-6c0f-4a57-9a53-0a1d1f9b1c11".to_owned(),
        user_context: Some(UserContext { user_id: "bench".to_owned(), ..UserContext::default() }),
        plan: Some(Plan { op_type: Some(OpType::Root(relation)) }),
        ..ExecutePlanRequest::default()
    }
}
