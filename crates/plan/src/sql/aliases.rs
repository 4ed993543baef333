//! Names for stand-ins: where a made-up table stands for one that the query names, columns are still
//! found by that name.

use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectNamePart, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Gives each stand-in without an alias the last part of the name that it stands for, so that
/// `orders.id` is found. `stands_for` knows that name, by the stand-in's own.
pub(crate) fn name_tables<'n>(
    query: &mut ast::Query,
    stands_for: impl Fn(&str) -> Option<&'n str>,
) {
    let _: ControlFlow<Infallible> = query.visit(&mut Aliases { stands_for });
}

struct Aliases<F> {
    stands_for: F,
}

impl<'n, F: Fn(&str) -> Option<&'n str>> VisitorMut for Aliases<F> {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        let TableFactor::Table { name, alias: alias @ None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [ObjectNamePart::Identifier(own)] = name.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        if let Some(name) = (self.stands_for)(&own.value) {
            let last = name.rsplit('.').next().unwrap_or(name);
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('`', last),
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
