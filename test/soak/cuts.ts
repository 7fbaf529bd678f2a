/*
 * Pushes of changes, to a project of the server and to one on a node, promotions and undos, while connections are cut at
 * random bytes, and clients, servers and nodes are killed at random moments: `node cuts.js [seconds] [seed] [faults]`; it
 * ends with whichever comes first. Prints TAP, and as a comment how often what was seen.
 */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runPushFaults } from '../support/push-faults.js'

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const faults = Number(process.argv[4] ?? Infinity)

t.setTimeout(0)
t.test(`cut and killed pushes for ${seconds} seconds`, { timeout: 0 }, async t => {
  const directory = mkdtempSync(join(realpathSync(tmpdir()), 'svc-cuts-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const { seen, wrong } = await runPushFaults(t, { seed, faults, untilMs: Date.now() + seconds * 1000, directory })
  t.comment(`seed ${seed}: ${JSON.stringify(seen)}`)
  t.ok((seen['faults'] as number) > 0, `${seen['faults']} faults`)
  t.equal(wrong.length, 0, wrong.join('\n') || 'nothing is wrong')
})
