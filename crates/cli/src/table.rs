//! Aligned columns of text.

/// Lines with columns aligned: those of numbers to the right, all others to the left, two spaces
/// between, none at the end.
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let numeric: Vec<bool> = (0..columns)
        .map(|column| {
            let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column)).peekable();
            cells.peek().is_some() && cells.all(|cell| number(cell))
        })
        .collect();
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).zip(&numeric).map(|((cell, width), numeric)| {
                if *numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}

fn number(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| c.is_ascii_digit() || "-. ,".contains(c))
}

/// A number with spaces between thousands: `1 234 567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let cell = |text: &str| text.to_owned();
        let rows = vec![
            vec![cell("batch"), cell("what")],
            vec![cell("7"), cell("plan")],
            vec![cell("12"), cell("run again")],
        ];
        assert_eq!(aligned(&rows), ["batch  what", "    7  plan", "   12  run again"]);
        assert_eq!(aligned(&[]), Vec::<String>::new());
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }
}
