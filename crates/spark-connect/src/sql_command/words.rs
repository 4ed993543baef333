//! Finds words of a statement outside quotes, brackets and `CASE … END`.

use super::statement::after;

/// Where words begin at the statement's own level, and what is behind them.
pub(super) fn find<'t>(text: &'t str, words: &[&str]) -> Option<(&'t str, &'t str)> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut inside_word = false;
    for (place, c) in text.char_indices() {
        let begins = !inside_word;
        inside_word = c.is_alphanumeric() || c == '_' || c == '.' || c == '`';
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) if begins && inside_word => {
                let (before, rest) = text.split_at(place);
                if after(rest, &["case"]).is_some() {
                    depth += 1;
                } else if depth > 0 && after(rest, &["end"]).is_some() {
                    depth -= 1;
                } else if depth == 0
                    && let Some(behind) = after(rest, words)
                {
                    return Some((before.trim_end(), behind));
                }
            }
            _ => {}
        }
    }
    None
}

/// The parts between commas at the text's own level.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut parts = Vec::new();
    let mut from = 0;
    for (place, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(text.get(from..place).unwrap_or_default().trim());
                from = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default().trim());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::{find, parts};

    #[test]
    fn words_in_quotes_brackets_and_cases_are_passed_over() {
        let text = "a = 'when' AND (b when c) AND CASE WHEN x THEN 1 END > 0 WHEN MATCHED";
        let (before, behind) = find(text, &["when"]).unwrap();
        assert!(before.ends_with("END > 0"), "{before}");
        assert_eq!(behind, "MATCHED");
        assert!(find("a.when = `when`", &["when"]).is_none());
        assert_eq!(parts("a = f(1, 2), b = ',' , c = 3"), ["a = f(1, 2)", "b = ','", "c = 3"]);
    }
}
