"""Every program, by being imported."""

import pairs.aggregates
import pairs.chains
import pairs.duplicates
import pairs.joins
import pairs.keys
import pairs.refusals
import pairs.runs
import pairs.windows
import pairs.zones  # noqa: F401
