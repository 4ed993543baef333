//! Bytes that mean nothing, and plans with some bytes changed.

use crate::server::{CALLS, Server, of, range, request};
use prost::Message;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, Literal, UnresolvedAttribute, UnresolvedFunction};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{
    AnalyzePlanRequest, Expression, Filter, Join, Limit, LocalRelation, Plan, Project, Relation,
    Sample, ShowString, Sort, Sql, UserContext, analyze_plan_request, plan,
};

/// Numbers that are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn new() -> Self {
        Numbers(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn bytes(&mut self, limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| self.byte()).collect()
    }
}

fn expression(kind: ExprType) -> Expression {
    Expression { common: None, expr_type: Some(kind) }
}

fn id() -> Expression {
    let name = UnresolvedAttribute { unparsed_identifier: "id".to_owned(), ..Default::default() };
    expression(ExprType::UnresolvedAttribute(name))
}

fn number(value: i64) -> Expression {
    let literal_type = Some(LiteralType::Long(value));
    expression(ExprType::Literal(Literal { literal_type, ..Literal::default() }))
}

fn call(name: &str, arguments: Vec<Expression>) -> Expression {
    expression(ExprType::UnresolvedFunction(UnresolvedFunction {
        function_name: name.to_owned(),
        arguments,
        ..UnresolvedFunction::default()
    }))
}

/// Plans of many kinds, each small.
fn plans() -> Vec<Relation> {
    let input = || Some(Box::new(range(5)));
    vec![
        range(5),
        of(RelType::Limit(Box::new(Limit { input: input(), limit: 2 }))),
        of(RelType::Project(Box::new(Project {
            input: input(),
            expressions: vec![id(), call("+", vec![id(), number(1)])],
        }))),
        of(RelType::Filter(Box::new(Filter {
            input: input(),
            condition: Some(call(">", vec![id(), number(2)])),
        }))),
        of(RelType::Join(Box::new(Join {
            left: input(),
            right: input(),
            using_columns: vec!["id".to_owned()],
            join_type: 1,
            ..Join::default()
        }))),
        of(RelType::Sort(Box::new(Sort { input: input(), ..Sort::default() }))),
        of(RelType::Sample(Box::new(Sample {
            input: input(),
            upper_bound: 0.5,
            seed: Some(1),
            ..Sample::default()
        }))),
        of(RelType::ShowString(Box::new(ShowString {
            input: input(),
            num_rows: 20,
            truncate: 20,
            vertical: false,
        }))),
        of(RelType::LocalRelation(LocalRelation {
            data: Some(ipc().into()),
            schema: Some("v BIGINT".to_owned()),
        })),
        of(RelType::Sql(Sql {
            query: "SELECT id, count(*) FROM VALUES (1), (2) AS t(id) GROUP BY id".to_owned(),
            ..Sql::default()
        })),
    ]
}

/// A stream of Arrow with one column of three rows.
pub(crate) fn ipc() -> Vec<u8> {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;
    let schema = std::sync::Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
    let column = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut bytes, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn changed(numbers: &mut Numbers, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=numbers.below(3) {
        let place = numbers.below(bytes.len());
        match numbers.below(6) {
            0 if !bytes.is_empty() => bytes[place] = numbers.byte(),
            1 if !bytes.is_empty() => bytes[place] ^= 1 << numbers.below(8),
            2 => bytes.truncate(place),
            3 => {
                let more = numbers.bytes(12);
                bytes.splice(place..place, more);
            }
            4 => {
                let end = (place + numbers.below(40)).min(bytes.len());
                let part = bytes[place..end].to_vec();
                bytes.splice(place..place, part);
            }
            // The greatest number that a field can hold.
            _ => {
                let greatest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
                bytes.splice(place..place, greatest);
            }
        }
    }
    bytes
}

#[test]
fn bytes_that_mean_nothing_get_an_answer() {
    let server = Server::new();
    let channel = server.channel();
    let mut numbers = Numbers::new();
    for (name, _) in CALLS {
        for _ in 0..60 {
            // What is no request is an error; what happens to be one may be answered.
            let _ = server.call(&channel, name, numbers.bytes(200));
        }
    }
    server.assert_alive();
}

#[test]
fn changed_plans_get_an_answer() {
    let server = Server::new();
    let channel = server.channel();
    let mut numbers = Numbers::new();
    let plans = plans();
    for plan in &plans {
        server.call(&channel, "ExecutePlan", request(plan.clone()).encode_to_vec()).unwrap();
    }
    for round in 0..600 {
        let plan = plans[round % plans.len()].clone();
        let wrapped = Plan { op_type: Some(plan::OpType::Root(plan.clone())) };
        let (name, bytes) = if round % 4 == 0 {
            let schema = analyze_plan_request::Schema { plan: Some(wrapped) };
            let asked = AnalyzePlanRequest {
                session_id: crate::server::SESSION.to_owned(),
                user_context: Some(UserContext::default()),
                analyze: Some(analyze_plan_request::Analyze::Schema(schema)),
                ..AnalyzePlanRequest::default()
            };
            ("AnalyzePlan", asked.encode_to_vec())
        } else {
            ("ExecutePlan", request(plan).encode_to_vec())
        };
        let bytes = changed(&mut numbers, bytes);
        let _ = server.call(&channel, name, bytes);
    }
    server.assert_alive();
}

#[test]
fn changed_rows_of_arrow_get_an_answer() {
    let server = Server::new();
    let channel = server.channel();
    let mut numbers = Numbers::new();
    for _ in 0..400 {
        let data = changed(&mut numbers, ipc());
        let local = LocalRelation { data: Some(data.into()), schema: None };
        let bytes = request(of(RelType::LocalRelation(local))).encode_to_vec();
        let _ = server.call(&channel, "ExecutePlan", bytes);
    }
    server.assert_alive();
}
