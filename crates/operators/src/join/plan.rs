//! A join made ready: checked, with its codecs and the layout of its state.

use super::codec::ValueCodec;
use super::filter::JoinCondition;
use super::{StreamJoin, StreamJoinSide};
use crate::event_time::{last_late_tick, unit_of};
use crate::failure;
use crate::keys::{RowCodec, plain, state_schema};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::cast;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec};
use onefold_types::{Error, Result as OwnResult};
use std::sync::Arc;

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Left, Side::Right];

    pub(super) fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }
}

/// The bound of a side, checked.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) value: PhysicalExprRef,
    pub(super) unit: TimeUnit,
    offset_ms: i64,
    /// Family of the index by time.
    pub(super) expiry: usize,
    field: Field,
}

impl Bound {
    /// Rows with a time up to this one go, given the eviction watermark.
    pub(super) fn last_evicted(&self, watermark_ms: i64) -> i64 {
        last_late_tick(watermark_ms.saturating_add(self.offset_ms), self.unit)
    }
}

/// One side of a join, checked.
#[derive(Debug)]
pub(super) struct SidePlan {
    pub(super) side: Side,
    pub(super) schema: SchemaRef,
    pub(super) keys: Vec<PhysicalExprRef>,
    pub(super) event_time: Option<PhysicalExprRef>,
    pub(super) bound: Option<Bound>,
    /// Family of the rows.
    pub(super) rows: usize,
    pub(super) values: ValueCodec,
    /// Whether its rows come out without a partner.
    pub(super) outer: bool,
    /// Whether it matters if a row has met another.
    pub(super) tracked: bool,
}

impl SidePlan {
    fn new(
        side: Side,
        given: &StreamJoinSide,
        keys: Vec<PhysicalExprRef>,
        bound: Option<Bound>,
        outer: bool,
    ) -> Result<Self> {
        if let Some(event_time) = &given.event_time {
            unit_of(&event_time.data_type(&given.schema)?)?;
        }
        Ok(SidePlan {
            side,
            schema: Arc::clone(&given.schema),
            keys,
            event_time: given.event_time.clone(),
            bound,
            rows: match side {
                Side::Left => LEFT_ROWS,
                Side::Right => RIGHT_ROWS,
            },
            values: ValueCodec::new(Arc::clone(&given.schema))?,
            outer,
            tracked: outer,
        })
    }
}

/// A join, checked.
#[derive(Debug)]
pub(super) struct JoinPlan {
    pub(super) left: SidePlan,
    pub(super) right: SidePlan,
    pub(super) semi: bool,
    pub(super) condition: JoinCondition,
    pub(super) key_codec: RowCodec,
    /// Family of the next index of each key group.
    pub(super) sequence: usize,
    pub(super) schema: SchemaRef,
    pub(super) join_type: JoinType,
}

const LEFT_ROWS: usize = 0;
const RIGHT_ROWS: usize = 1;
const SEQUENCE: usize = 2;
const FIRST_EXPIRY: usize = 3;

impl JoinPlan {
    pub(super) fn new(join: &StreamJoin) -> OwnResult<Self> {
        Self::checked(join).map_err(failure::planning)
    }

    fn checked(join: &StreamJoin) -> Result<Self> {
        use JoinType::{Full, Inner, Left, LeftSemi, Right};
        let kind = join.join_type;
        if !matches!(kind, Inner | Left | Right | Full | LeftSemi) {
            return Err(invalid(format!("a {kind} join of two streams is not supported")));
        }
        if join.left.keys.is_empty() || join.left.keys.len() != join.right.keys.len() {
            return Err(invalid(
                "a join of two streams needs an equality between their columns in its condition",
            ));
        }
        let right_keys = same_types(&join.left, &join.right)?;
        let key_codec = RowCodec::try_new(key_types(&join.left)?)?;
        let (left_outer, right_outer) = (matches!(kind, Left | Full), matches!(kind, Right | Full));
        let left_bound = bound(&join.left, FIRST_EXPIRY)?;
        let after_left = FIRST_EXPIRY + usize::from(left_bound.is_some());
        let right_bound = bound(&join.right, after_left)?;
        let left_keys = join.left.keys.clone();
        let mut left = SidePlan::new(Side::Left, &join.left, left_keys, left_bound, left_outer)?;
        left.tracked |= kind == LeftSemi;
        let right = SidePlan::new(Side::Right, &join.right, right_keys, right_bound, right_outer)?;
        Ok(JoinPlan {
            left,
            right,
            semi: kind == LeftSemi,
            condition: JoinCondition::new(join.filter.as_ref()),
            key_codec,
            sequence: SEQUENCE,
            schema: join.schema(),
            join_type: kind,
        })
    }

    pub(super) fn side(&self, side: Side) -> &SidePlan {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// What the join declares of its state.
    pub(super) fn spec(&self, id: OperatorId, label: &str) -> OperatorSpec {
        let mut families: Vec<_> = Side::BOTH.map(|side| self.row_family(self.side(side))).into();
        families.push(FamilySpec {
            name: "sequence".to_owned(),
            key: state_schema([field("group", DataType::UInt8)]),
            value: state_schema([field("next", DataType::Int64)]),
            access: Access::Point,
            counted: false,
        });
        for side in Side::BOTH.map(|side| self.side(side)) {
            if let Some(bound) = &side.bound {
                families.push(self.expiry_family(side, bound));
            }
        }
        OperatorSpec {
            id,
            kind: "symmetricHashJoin".to_owned(),
            label: label.to_owned(),
            families,
            single: false,
        }
    }

    fn row_family(&self, side: &SidePlan) -> FamilySpec {
        let mut key = self.key_fields();
        key.extend(side.bound.as_ref().map(|bound| Arc::new(bound.field.clone())));
        key.push(field("index", DataType::Int64));
        let matched = field("matched", DataType::Boolean);
        FamilySpec {
            name: format!("{}-keyWithIndexToValue", side.side.name()),
            key: state_schema(key),
            value: state_schema(side.schema.fields().iter().cloned().chain([matched])),
            access: Access::Ordered,
            counted: true,
        }
    }

    fn expiry_family(&self, side: &SidePlan, bound: &Bound) -> FamilySpec {
        let mut key = vec![Arc::new(bound.field.clone())];
        key.extend(self.key_fields());
        key.push(field("index", DataType::Int64));
        FamilySpec {
            name: format!("{}-expiry", side.side.name()),
            key: state_schema(key),
            value: Arc::new(Schema::empty()),
            access: Access::Ordered,
            counted: false,
        }
    }

    fn key_fields(&self) -> Vec<FieldRef> {
        let types = self.key_codec.types().iter().enumerate();
        types.map(|(place, kind)| field(&format!("field{place}"), kind.clone())).collect()
    }
}

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn key_types(side: &StreamJoinSide) -> Result<Vec<DataType>> {
    side.keys.iter().map(|key| Ok(plain(&key.data_type(&side.schema)?))).collect()
}

/// The right side's keys in the types of the left side's.
fn same_types(left: &StreamJoinSide, right: &StreamJoinSide) -> Result<Vec<PhysicalExprRef>> {
    let types = key_types(left)?.into_iter().zip(key_types(right)?);
    let keys = right.keys.iter().zip(types).map(|(key, (wanted, given))| {
        if wanted == given {
            return Ok(Arc::clone(key));
        }
        cast(Arc::clone(key), &right.schema, wanted)
    });
    keys.collect()
}

fn bound(side: &StreamJoinSide, expiry: usize) -> Result<Option<Bound>> {
    let Some(bound) = &side.bound else { return Ok(None) };
    let given = bound.value.data_type(&side.schema)?;
    let unit = unit_of(&given)?;
    let time = match &given {
        DataType::Struct(fields) => fields.find("end").map(|(_, end)| end.data_type().clone()),
        other => Some(other.clone()),
    };
    let time = time.unwrap_or(DataType::Timestamp(unit, None));
    Ok(Some(Bound {
        value: Arc::clone(&bound.value),
        unit,
        offset_ms: bound.offset_ms,
        expiry,
        field: Field::new("eventTime", time, true),
    }))
}

fn invalid(message: impl Into<String>) -> datafusion::error::DataFusionError {
    failure::external(Error::invalid(message))
}

/// An array of one expression over a batch.
pub(super) fn value_of(
    expr: &PhysicalExprRef,
    batch: &arrow::record_batch::RecordBatch,
) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}
