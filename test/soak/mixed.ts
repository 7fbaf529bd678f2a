/*
 * Uploads, damaged uploads, cancels, followers, tails, searches, terminals and readers at once, on a real server:
 * `node mixed.js [seconds] [seed]`. Prints TAP, and as comments what the server had when it began and when it ended.
 */
import t from 'tap'
import { soakMixed } from '../support/mixed-soak.js'

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const skip = process.platform !== 'linux' && 'descriptors and children are read from /proc'

t.setTimeout(0)
t.test(`a soak of ${seconds} seconds ends with what it began with`, { skip, timeout: 0 }, async t => {
  await soakMixed(t, { seconds, seed, say: line => t.comment(line) })
})
