//! The fields of a pattern, taken from a text one by one.

use super::super::times::Zone;
use crate::java_pattern::MONTHS;
use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Weekday};

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What is left of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    rest: &'a str,
}

impl<'a> Input<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Input { rest: text }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes this text, without case.
    pub(super) fn text(&mut self, wanted: &str) -> Option<()> {
        let (front, rest) = self.rest.split_at_checked(wanted.len())?;
        front.eq_ignore_ascii_case(wanted).then(|| self.rest = rest)
    }

    fn digits(&self) -> usize {
        self.rest.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (front, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(front)
    }

    /// A number of `min` to `max` digits that leaves `reserved` digits of its run.
    fn number(&mut self, min: usize, max: usize, reserved: usize) -> Option<u32> {
        let length = self.digits().saturating_sub(reserved).min(max);
        if length < min {
            return None;
        }
        self.take(length)?.parse().ok()
    }

    /// The place of the name that the text starts with; short names are of three letters.
    fn name(&mut self, names: &[&str], long: bool) -> Option<u32> {
        names.iter().zip(0_u32..).find_map(|(name, at)| {
            let name = if long { name } else { name.get(..3)? };
            self.text(name).map(|()| at)
        })
    }

    fn zone(&mut self) -> Option<Zone> {
        let part = |c: char| c.is_ascii_alphanumeric() || "_/+:-".contains(c);
        let length = self.rest.find(|c: char| !part(c)).unwrap_or(self.rest.len());
        Zone::parse(self.take(length)?)
    }

    /// `+HH`, `+HHMM`, `+HH:MM`, with seconds after it in the longest forms; `Z` if `zulu`.
    fn offset(&mut self, count: usize, zulu: bool) -> Option<Zone> {
        if zulu && self.text("Z").is_some() {
            return Some(Zone::UTC);
        }
        let start = self.rest;
        self.text("+").or_else(|| self.text("-"))?;
        self.number(2, 2, 0)?;
        let colon = matches!(count, 3 | 5);
        if count > 1 || self.digits() >= 2 {
            if colon {
                self.text(":")?;
            }
            self.number(2, 2, 0)?;
        }
        Zone::parse(start.get(..start.len() - self.rest.len())?)
    }
}

/// What a text told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    weekday: Option<u32>,
    hour: Option<u32>,
    half_hour: Option<u32>,
    afternoon: Option<bool>,
    minute: Option<u32>,
    second: Option<u32>,
    micros: Option<u32>,
    pub(super) zone: Option<Zone>,
}

impl Parts {
    /// Takes one field; `None` if the text does not fit.
    pub(super) fn take(
        &mut self,
        letter: char,
        count: usize,
        reserved: usize,
        input: &mut Input<'_>,
    ) -> Option<()> {
        let mut short = || input.number(count.min(2), 2, reserved);
        match letter {
            'y' if count == 2 => {
                self.year = Some(2_000 + i32::try_from(input.number(2, 2, 0)?).ok()?)
            }
            'y' => self.year = Some(year(input, count, reserved)?),
            'M' | 'L' if count > 2 => self.month = Some(input.name(&MONTHS, count > 3)? + 1),
            'M' | 'L' => self.month = Some(short()?),
            'd' => self.day = Some(short()?),
            'D' => self.day_of_year = Some(input.number(count, 3, reserved)?),
            'E' => self.weekday = Some(input.name(&WEEKDAYS, count > 3)?),
            'H' => self.hour = Some(short()?),
            'k' => {
                self.hour = Some(short()?).filter(|hour| (1..=24).contains(hour)).map(|h| h % 24)
            }
            'h' => self.half_hour = Some(short()?).filter(|h| (1..=12).contains(h)).map(|h| h % 12),
            'K' => self.half_hour = Some(short()?).filter(|hour| *hour < 12),
            'm' => self.minute = Some(short()?),
            's' => self.second = Some(short()?),
            'S' => {
                let length = input.digits().min(count);
                let digits = input.take(length).filter(|digits| !digits.is_empty())?;
                let micros = format!("{digits:0<6}");
                self.micros = micros.get(..6)?.parse().ok();
            }
            'a' => {
                let morning = input.text("AM").is_some();
                if !morning {
                    input.text("PM")?;
                }
                self.afternoon = Some(!morning);
            }
            'X' => self.zone = Some(input.offset(count, true)?),
            'Z' if count == 5 => self.zone = Some(input.offset(5, true)?),
            'Z' if count < 4 => self.zone = Some(input.offset(2, false)?),
            'x' => self.zone = Some(input.offset(count, false)?),
            _ => self.zone = Some(input.zone()?),
        }
        // A field whose value was out of its range was taken away again.
        let lost =
            matches!((letter, self.hour, self.half_hour), ('k', None, _) | ('h' | 'K', _, None));
        (!lost).then_some(())
    }

    /// The date; a part that no field told is the first of 1970.
    pub(super) fn date(&self) -> Option<NaiveDate> {
        let year = self.year.unwrap_or(1970);
        let date = match self.day_of_year {
            Some(day) => NaiveDate::from_yo_opt(year, day)?,
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        let fits = |weekday: u32| date.weekday() == weekday_of(weekday);
        self.weekday.is_none_or(fits).then_some(date)
    }

    /// Date and time.
    pub(super) fn local(&self) -> Option<NaiveDateTime> {
        let half = self.half_hour.unwrap_or(0) + if self.afternoon == Some(true) { 12 } else { 0 };
        let hour = self.hour.unwrap_or(half);
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        let time = NaiveTime::from_hms_micro_opt(hour, minute, second, self.micros.unwrap_or(0))?;
        Some(self.date()?.and_time(time))
    }
}

fn weekday_of(at: u32) -> Weekday {
    let steps = usize::try_from(at).unwrap_or(0);
    std::iter::successors(Some(Weekday::Mon), |day| Some(day.succ()))
        .nth(steps)
        .unwrap_or(Weekday::Mon)
}

/// A year of at least `count` digits, with a sign where it needs one.
fn year(input: &mut Input<'_>, count: usize, reserved: usize) -> Option<i32> {
    let negative = input.text("-").is_some();
    if !negative {
        let _ = input.text("+");
    }
    let year = i32::try_from(input.number(count, 9, reserved)?).ok()?;
    Some(if negative { -year } else { year })
}
