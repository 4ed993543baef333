//! Intervals of several units: `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL '1 02:03:04.5' DAY TO SECOND`.

use super::rewrite::{call, cast};
use datafusion::sql::sqlparser::ast::{DateTimeField, Expr, Interval, Value};
use onefold_types::{Error, Result};

/// The units of an interval by the clock, the largest first.
const CLOCK: [&str; 4] = ["DAY", "HOUR", "MINUTE", "SECOND"];

/// The interval as the planner takes it; nothing for one of one unit.
pub(super) fn of_several_units(interval: &Interval) -> Option<Result<Expr>> {
    let (first, last) = (interval.leading_field.as_ref()?, interval.last_field.as_ref()?);
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let found = match (first, last) {
        (DateTimeField::Year, DateTimeField::Month) => months(text).map(|months| {
            Expr::Interval(Interval {
                value: Box::new(Expr::Value(
                    Value::SingleQuotedString(format!("{months} months")).into(),
                )),
                leading_field: None,
                last_field: None,
                ..interval.clone()
            })
        }),
        _ => {
            let place = |field: &DateTimeField| {
                CLOCK.iter().position(|name| *name == field.to_string().to_uppercase())
            };
            by_clock(text, place(first)?, place(last)?)
        }
    };
    Some(found.ok_or_else(|| {
        Error::invalid(format!(
            "'{text}' is no interval of {first} TO {last}; write it as in '1-2' YEAR TO MONTH or \
             '1 02:03:04' DAY TO SECOND"
        ))
    }))
}

/// A text without its sign, and whether that is minus.
fn signed(text: &str) -> (&str, bool) {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    }
}

fn months(text: &str) -> Option<i64> {
    let (text, minus) = signed(text);
    let (years, months) = text.split_once('-')?;
    let (years, months): (u32, u32) = (years.parse().ok()?, months.parse().ok()?);
    let all = i64::from(years) * 12 + i64::from(months);
    (months < 12).then_some(if minus { -all } else { all })
}

/// A call of `make_dt_interval` with the units from `first` to `last`.
fn by_clock(text: &str, first: usize, last: usize) -> Option<Expr> {
    let (text, minus) = signed(text);
    let (days, clock) = match first {
        0 if last > 0 => text.split_once(' ').map(|(days, rest)| (Some(days), rest.trim()))?,
        _ => (None, text),
    };
    let parts: Vec<&str> = days.into_iter().chain(clock.split(':')).collect();
    if last <= first || parts.len() != last - first + 1 {
        return None;
    }
    let mut units = vec!["0".to_owned(); CLOCK.len()];
    for (place, part) in parts.into_iter().enumerate() {
        let unit = first + place;
        let value: f64 = part.parse().ok().filter(|value: &f64| *value >= 0.0)?;
        let whole = part.bytes().all(|byte| byte.is_ascii_digit());
        // The first unit may be any number, those behind it go round.
        let most = [f64::MAX, 24.0, 60.0, 60.0].get(unit).copied()?;
        if (!whole && unit != 3) || (place > 0 && value >= most) {
            return None;
        }
        *units.get_mut(unit)? = format!("{}{part}", if minus { "-" } else { "" });
    }
    let number = |(place, text): (usize, String)| {
        let to = if place == 3 { "DECIMAL(18,6)" } else { "INT" };
        cast("cast", Expr::Value(Value::SingleQuotedString(text).into()), to)
    };
    Some(call("make_dt_interval", units.into_iter().enumerate().map(number).collect()))
}

#[cfg(test)]
mod tests {
    use super::{by_clock, months};

    #[test]
    fn each_unit_has_its_place_and_its_bounds() {
        assert_eq!(months("1-2"), Some(14));
        assert_eq!(months("-1-2"), Some(-14));
        assert_eq!(months("1-12"), None);
        let of = |text, first, last| by_clock(text, first, last).map(|it| it.to_string());
        assert!(of("1 02:03:04.5", 0, 3).unwrap().contains("'04.5'"));
        assert!(of("-30:15", 2, 3).unwrap().contains("'-30'"));
        assert!(of("100:59", 1, 2).is_some());
        for (text, first, last) in
            [("1 25:00", 0, 2), ("1", 0, 3), ("1:60", 1, 2), ("a b", 0, 1), ("1.5:00", 1, 2)]
        {
            assert!(by_clock(text, first, last).is_none(), "{text}");
        }
    }
}
