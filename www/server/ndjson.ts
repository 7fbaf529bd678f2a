import { createLineReader, type LineReader } from '../shared/streams.js'

/** Creates a reader that passes the value of each JSON line to `onValue`. Skips empty lines. Throws a SyntaxError. */
export function createNdjsonReader(onValue: (value: unknown) => void): LineReader {
  return createLineReader(line => {
    if (line.trim() !== '') onValue(JSON.parse(line))
  })
}
