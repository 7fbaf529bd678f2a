import type { Reckoned } from '../../../lib/core/install/reckon.js'

/** The decisions about an extraction that removes nothing and replaces no edited file. */
export const nothingReckoned: Reckoned = {
  replaced: { count: 0, files: [] },
  kept: { count: 0, files: [] },
  removed: [],
  gone: [],
  directories: [],
  gaveWay: new Map(),
  keptOf: () => undefined,
  beforeFrom: [],
  beforeBytes: 0
}
