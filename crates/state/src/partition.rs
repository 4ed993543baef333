//! State of one operator in one partition: the base, seen through the overlay.

use crate::base::Base;
use crate::batch::Slots;
use crate::layered;
use crate::overlay::{Overlay, Seen};
use crate::place::Place;
use crate::{Access, KeyGroup, OperatorSpec, PartitionState, RowVisitor, StateRow};
use onefold_types::{Error, Result};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The one implementation of [`PartitionState`].
#[derive(Debug)]
pub(crate) struct OpenPartition {
    base: Arc<dyn Base>,
    spec: OperatorSpec,
    slots: Arc<Slots>,
    slot: usize,
    /// `None` once it has been handed back.
    overlay: Option<Overlay>,
}

impl OpenPartition {
    pub(crate) fn new(
        base: Arc<dyn Base>,
        spec: OperatorSpec,
        slots: Arc<Slots>,
        slot: usize,
        overlay: Overlay,
    ) -> Self {
        OpenPartition { base, spec, slots, slot, overlay: Some(overlay) }
    }

    fn overlay(&self) -> Result<&Overlay> {
        self.overlay.as_ref().ok_or_else(|| Error::internal("this partition was handed back"))
    }

    fn place(&self, family: usize) -> Result<Place> {
        Ok(Place { operator: self.overlay()?.operator(), family })
    }

    fn write(
        &mut self,
        family: usize,
        group: KeyGroup,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let place = self.place(family)?;
        let OpenPartition { base, overlay, .. } = self;
        let Some(overlay) = overlay else { return Err(Error::internal("handed back")) };
        overlay.write(family, group, key, value, || base.value_length(place, group, key))
    }
}

impl PartitionState for OpenPartition {
    fn groups(&self) -> Range<u32> {
        self.overlay.as_ref().map_or(0..0, Overlay::groups)
    }

    fn get(&mut self, family: usize, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let place = self.place(family)?;
        let overlay = self.overlay()?;
        let mut found = Vec::with_capacity(keys.len());
        // Those that only the base knows, with their places in `found`.
        let mut asked = Vec::new();
        let mut places = Vec::new();
        for (index, (group, key)) in keys.iter().enumerate() {
            found.push(match overlay.see(family, *group, key)? {
                Seen::Written(value) => value.map(Into::into),
                Seen::Base => {
                    asked.push((*group, *key));
                    places.push(index);
                    None
                }
            });
        }
        let answers = self.base.get(place, &asked)?;
        let remember = self.base.remember_reads();
        for (((group, key), index), answer) in asked.into_iter().zip(places).zip(answers) {
            if let Some(overlay) = self.overlay.as_mut().filter(|_| remember) {
                let length = answer.as_ref().map(|value| value.len());
                overlay.remember(family, group, key, length)?;
            }
            if let Some(slot) = found.get_mut(index) {
                *slot = answer;
            }
        }
        Ok(found)
    }

    fn put(&mut self, family: usize, group: KeyGroup, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(family, group, key, Some(value))
    }

    fn remove(&mut self, family: usize, group: KeyGroup, key: &[u8]) -> Result<()> {
        self.write(family, group, key, None)
    }

    fn scan(
        &mut self,
        family: usize,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        let ordered = self.spec.families.get(family).map(|spec| spec.access);
        if ordered != Some(Access::Ordered) {
            let text = format!("family {family} of {} has no order to scan in", self.spec.label);
            return Err(Error::internal(text));
        }
        let place = self.place(family)?;
        if let Some(overlay) = &mut self.overlay {
            overlay.settle(family, group);
        }
        let overlay = self.overlay()?;
        layered::scan(
            (from, to),
            limit,
            |from, limit| self.base.scan(place, group, from, to, limit),
            |from, to, visit| overlay.range(family, group, (from, to), visit),
        )
    }

    fn for_each(&mut self, family: usize, each: &mut RowVisitor<'_>) -> Result<()> {
        let place = self.place(family)?;
        let overlay = self.overlay()?;
        self.base.for_each(place, overlay.groups(), &mut |group, key, value| match overlay
            .see(family, group, key)?
        {
            Seen::Base => each(group, key, value),
            Seen::Written(_) => Ok(()),
        })?;
        for row in overlay.written(family) {
            if let Some(value) = row.value {
                each(row.group, row.key, value)?;
            }
        }
        Ok(())
    }

    fn rows(&self, family: usize) -> u64 {
        let Some(overlay) = &self.overlay else { return 0 };
        let counts = self.base.counts().family(overlay.operator(), family);
        let base = counts.map_or(0, |counts| counts.total(overlay.groups()).rows);
        base.saturating_add_signed(overlay.change(family, None).rows)
    }

    fn rows_in(&self, family: usize, group: KeyGroup) -> u64 {
        let Some(overlay) = &self.overlay else { return 0 };
        let counts = self.base.counts().family(overlay.operator(), family);
        let base = counts.map_or(0, |counts| counts.group(group).rows);
        base.saturating_add_signed(overlay.change(family, Some(group)).rows)
    }
}

impl Drop for OpenPartition {
    fn drop(&mut self) {
        if let Some(overlay) = self.overlay.take() {
            self.slots.give_back(self.slot, overlay);
        }
    }
}
