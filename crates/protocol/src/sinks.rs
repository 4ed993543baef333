//! Several sinks of one query: one of them decides each batch, the others follow.
//!
//! No act spans two sinks. So the mark of *one* sink, the decider, says which driver's output of a
//! batch counts. Sinks that remember nothing are published before it, since nobody could tell
//! later whether they were. Those that do remember are published after it, from what the prepared
//! record of that driver says; a crash in between is finished by the next driver.

/// How the sinks of a query take part in a batch, by their places in the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// Published first: sinks that do not remember what they hold.
    pub forgetful: Vec<usize>,
    /// Published next: the sink whose mark decides. None where no sink remembers anything.
    pub decider: Option<usize>,
    /// Published last, with the decider's generation.
    pub followers: Vec<usize>,
}

impl Roles {
    /// The roles of sinks, of which `keeps_marks` says whether they remember their marks.
    #[must_use]
    pub fn of(keeps_marks: &[bool]) -> Roles {
        let mut roles = Roles::default();
        for (place, keeps) in keeps_marks.iter().enumerate() {
            match (keeps, roles.decider) {
                (false, _) => roles.forgetful.push(place),
                (true, None) => roles.decider = Some(place),
                (true, Some(_)) => roles.followers.push(place),
            }
        }
        roles
    }

    /// All sinks in the order in which they are published.
    pub fn order(&self) -> impl Iterator<Item = usize> {
        self.forgetful.iter().chain(&self.decider).chain(&self.followers).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Roles;

    #[test]
    fn the_first_sink_that_remembers_decides() {
        let roles = Roles::of(&[false, true, false, true]);
        assert_eq!(roles, Roles { forgetful: vec![0, 2], decider: Some(1), followers: vec![3] });
        assert_eq!(roles.order().collect::<Vec<_>>(), [0, 2, 1, 3]);
        assert_eq!(Roles::of(&[false]).decider, None);
    }
}
