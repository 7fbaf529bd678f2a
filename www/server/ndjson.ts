import { createLineReader } from './lines.js'
import type { LineReader } from './lines.js'

/** Text in, cut anywhere; one value out for each line of JSON. Empty lines are skipped, a broken one throws. */
export function createNdjsonReader(onValue: (value: unknown) => void): LineReader {
  return createLineReader(line => {
    if (line.trim() !== '') onValue(JSON.parse(line))
  })
}
