//! Options as users give them: names without case, values as text.

use std::collections::BTreeMap;

/// Option names and values. Names compare without case, as in Spark; the first spelling is kept for
/// messages.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OptionMap {
    entries: BTreeMap<String, (String, String)>,
}

impl OptionMap {
    /// No options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option; a later value replaces an earlier one.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.entries.insert(name.to_lowercase(), (name, value.into()));
    }

    /// The same with one more option.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// The value of an option.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.get(&name.to_lowercase()).map(|(_, value)| value.as_str())
    }

    /// Takes an option out.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.entries.remove(&name.to_lowercase()).map(|(_, value)| value)
    }

    /// All options as (name as spelled, value), sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.values().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl std::fmt::Debug for OptionMap {
    /// Shows names only: which values are secret is known to the option table, not here.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.entries.values().map(|(name, _)| name)).finish()
    }
}

/// Settings as a debug output may show them: by name only, since any value may be a secret.
pub struct NamesOnly<'a>(pub &'a BTreeMap<String, String>);

impl std::fmt::Debug for NamesOnly<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for OptionMap {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut options = OptionMap::new();
        for (name, value) in pairs {
            options.set(name, value);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::OptionMap;

    #[test]
    fn names_compare_without_case_and_values_stay_out_of_debug() {
        let options = OptionMap::new().with("maxFilesPerTrigger", "1").with("PASSWORD", "hunter2");
        assert_eq!(options.get("MAXFILESPERTRIGGER"), Some("1"));
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
