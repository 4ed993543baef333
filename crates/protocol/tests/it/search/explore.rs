//! The search itself: breadth first over all states, each visited once.

use super::driver::{Driver, Ended, Reply};
use super::world::{Bug, World};
use onefold_protocol::invariants;
use std::collections::{HashMap, VecDeque};

/// How large a search is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Drivers that may live at the same time.
    pub(super) at_once: usize,
    /// Crashes in all.
    pub(super) crashes: u8,
    /// Drivers that start while others live. One that finds nobody alive may always start.
    pub(super) starts: u64,
    /// Rows of the input. Odd generations take two rows a batch, even ones one.
    pub(super) rows: u64,
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    /// States in which nothing is left to do.
    pub(super) ends: usize,
    /// The first violation, with the acts that lead to it.
    pub(super) violation: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    world: World,
    drivers: Vec<Driver>,
    crashes: u8,
    starts: u64,
    /// Whether the last driver found nobody alive when it started.
    alone: bool,
}

struct Search {
    bug: Option<Bug>,
    limits: Limits,
    seen: HashMap<State, usize>,
    /// For each state, by number: the one before it and the act between them.
    origins: Vec<(usize, String)>,
    queue: VecDeque<(usize, State)>,
    /// Acts as (state after, state before).
    edges: Vec<(usize, usize)>,
    /// States in which nothing is left to do.
    ends: Vec<usize>,
}

/// Visits every state within the limits, up to the first violation.
pub(super) fn explore(bug: Option<Bug>, limits: Limits) -> Found {
    let start = State {
        world: World::default(),
        drivers: Vec::new(),
        crashes: limits.crashes,
        starts: 0,
        alone: true,
    };
    let mut search = Search {
        bug,
        limits,
        seen: HashMap::from([(start.clone(), 0)]),
        origins: vec![(0, "start".to_owned())],
        queue: VecDeque::from([(0, start)]),
        edges: Vec::new(),
        ends: Vec::new(),
    };
    let violation = search.run();
    Found { states: search.seen.len(), ends: search.ends.len(), violation }
}

impl Search {
    fn run(&mut self) -> Option<String> {
        while let Some((number, state)) = self.queue.pop_front() {
            if let Err(problem) = self.visit(number, &state) {
                return Some(self.told(number, &problem));
            }
        }
        let stuck = self.stuck()?;
        Some(self.told(stuck, "liveness: from here nothing leads to the end"))
    }

    /// A state from which no further acts reach an end.
    fn stuck(&mut self) -> Option<usize> {
        self.edges.sort_unstable();
        let mut leads = vec![false; self.origins.len()];
        let mut ahead = self.ends.clone();
        while let Some(number) = ahead.pop() {
            if std::mem::replace(&mut leads[number], true) {
                continue;
            }
            let first = self.edges.partition_point(|(after, _)| *after < number);
            let into = self.edges[first..].iter().take_while(|(after, _)| *after == number);
            ahead.extend(into.map(|(_, before)| *before).filter(|before| !leads[*before]));
        }
        leads.iter().position(|leads| !leads)
    }

    /// Takes every act that is possible in a state.
    fn visit(&mut self, number: usize, state: &State) -> Result<(), String> {
        for place in 0..state.drivers.len() {
            for reply in [Reply::Known, Reply::Lost] {
                if reply == Reply::Lost && !state.drivers[place].creates() {
                    continue;
                }
                self.act(number, state, place, reply)?;
            }
            if state.crashes > 0 {
                let mut next = state.clone();
                let dead = next.drivers.remove(place);
                next.crashes -= 1;
                self.add(number, next, format!("generation {} dies", dead.generation));
            }
        }
        let alone = state.drivers.is_empty();
        if alone && self.finished(state) {
            self.ends.push(number);
        }
        let more = state.starts < self.limits.starts && state.drivers.len() < self.limits.at_once;
        // Someone starts it again, as long as it takes.
        if if alone { !self.finished(state) } else { more } {
            let mut next = state.clone();
            next.starts += 1;
            next.alone = alone;
            next.drivers.push(Driver::new(next.starts));
            self.add(number, next, format!("driver {} starts", state.starts + 1));
        }
        Ok(())
    }

    fn act(
        &mut self,
        number: usize,
        state: &State,
        place: usize,
        reply: Reply,
    ) -> Result<(), String> {
        let mut next = state.clone();
        let mut driver = next.drivers.remove(place);
        let (generation, name) = (driver.generation, format!("{:?}", driver.at));
        let ended = driver.act(&mut next.world, self.bug, self.limits.rows, reply);
        let act = format!("generation {generation}: {name} ({reply:?})");
        let newest = driver.generation == next.world.newest_generation();
        if ended.is_none() {
            next.drivers.insert(place, driver);
        }
        let (before, after) = (state.world.observed(), next.world.observed());
        let verdict =
            invariants::check(&after).and_then(|()| invariants::check_step(&before, &after));
        let told = format!("after {act}");
        // A driver that died may have hidden a file; the end of the search asks again.
        let quiet =
            next.crashes == self.limits.crashes && !next.drivers.iter().any(Driver::conceals);
        let verdict = verdict
            .and_then(|()| if quiet { invariants::listing_complete(&after) } else { Ok(()) });
        verdict.map_err(|violation| format!("{violation}, {told}"))?;
        match ended {
            Some(Ended::Stopped(reason)) if newest => {
                return Err(format!("stop: {reason}, {told}"));
            }
            Some(Ended::Done) if next.alone && !self.finished(&next) => {
                return Err(format!("liveness: all is said to be done, {told}"));
            }
            Some(Ended::Fenced) if newest => return Err(format!("fenced by nobody, {told}")),
            _ => self.add(number, next, act),
        }
        Ok(())
    }

    fn add(&mut self, from: usize, state: State, act: String) {
        let fresh = self.origins.len();
        let number = *self.seen.entry(state.clone()).or_insert(fresh);
        self.edges.push((number, from));
        if number == fresh {
            self.origins.push((from, act));
            self.queue.push_back((number, state));
        }
    }

    /// Whether every row is delivered, committed and released.
    fn finished(&self, state: &State) -> bool {
        let world = &state.world;
        let end = world.marks.last_key_value().map_or(0, |(_, mark)| mark.end);
        let committed = world.commits.last_key_value().map(|(batch, _)| *batch);
        let marked = world.marks.last_key_value().map(|(batch, _)| *batch);
        let shown = invariants::listing_complete(&world.observed()).is_ok();
        let all = end == self.limits.rows && world.released == self.limits.rows;
        all && committed == marked && shown
    }

    fn told(&self, mut number: usize, problem: &str) -> String {
        let mut acts = Vec::new();
        while number != 0 {
            acts.push(self.origins[number].1.clone());
            number = self.origins[number].0;
        }
        acts.reverse();
        format!("{problem}\n  {}", acts.join("\n  "))
    }
}
