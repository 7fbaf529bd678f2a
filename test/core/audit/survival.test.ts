import { cpSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkTree } from '../../../lib/core/audit/keeper.js'
import { type Checkpoint, readCheckpoint, readNote } from '../../../lib/core/audit/signed-note.js'
import { trimLeaves } from '../../../lib/core/audit/audit.js'
import { createFailures } from '../../../lib/access/failures.js'
import { randomIds } from '../../../lib/base/digests.js'
import type { AuditCheckpoint } from '../../../lib/model/audit.js'
import { createRandom } from '../../support/random.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { repetitions } from '../../support/thorough.js'
import { exported, verified } from './export-stage.js'
import { hasCode } from '../../../lib/base/errors.js'
import { openLog, type Log } from './stage.js'

/* The tree of the audit log after kills, restarts, removals of old entries, a backup and a restore. */

const dayMs = 24 * 60 * 60_000
const head = (note: string): Checkpoint => readCheckpoint(readNote(note)?.text ?? '') as Checkpoint

/** Copies a directory in which a file may get its name meanwhile. */
function copy(from: string, to: string): void {
  for (;;) {
    try {
      return cpSync(from, to, { recursive: true })
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
      rmSync(to, { recursive: true, force: true })
    }
  }
}

/** A log that is closed, or whose directory is copied as a kill would leave it. */
async function again(log: Log, { from, to, isKilled }: { from: string; to: string; isKilled: boolean }): Promise<Log> {
  const nowMs = log.clock.now()
  if (!isKilled) await log.close()
  copy(from, to)
  if (isKilled) await log.store.close()
  const next = await openLog(to, { keepDays: 30 })
  next.clock.advance(nowMs - next.clock.now())
  next.keeper.start()
  return next
}

t.test('random histories: every checkpoint is a prefix of the last export', async t => {
  for (let seed = 1; seed <= repetitions(4, 100); seed++) {
    const random = createRandom(seed)
    const top = t.testdir({ home0: {} })
    let number = 0
    let log = await openLog(join(top, 'home0'), { keepDays: 30 })
    const anchors: Checkpoint[] = []
    const failuresOf = ({ store, clock, errors }: Log) =>
      createFailures({ store, clock, ids: randomIds, keep: 20, onError: error => void errors.push(error) })
    let failures = failuresOf(log)
    const steps: Array<() => Promise<unknown>> = [
      () => log.fill(1 + random.below(200)),
      () => log.fill(1),
      async () => {
        for (let n = random.below(60); n > 0; n--) {
          const address = `192.0.2.${random.below(3)}`
          failures.note({ witnessed: address, address, viaProxy: false, local: false }, 'wrong')
          log.clock.advance(20_000)
        }
      },
      async () => log.clock.advance(random.below(25) * dayMs),
      () => log.store.checkpoint(),
      () => log.keeper.current(),
      async () => {
        const isKilled = random.below(2) === 0
        if (!isKilled) await failures.flush()
        const [from, to] = [join(top, `home${number}`), join(top, `home${++number}`)]
        log = await again(log, { from, to, isKilled })
        failures = failuresOf(log)
      }
    ]
    for (let step = 0; step < 25; step++) {
      await random.oneOf(steps)()
      const note = log.keeper.newest()?.note
      if (note !== undefined) anchors.push(head(note))
    }
    await log.fill(1)
    await failures.flush()
    const unique = [...new Map(anchors.map(anchor => [anchor.size, anchor])).values()]
    const verdict = verified(await exported(log), { anchors: unique }, 4000)
    t.same(verdict.faults, [], `seed ${seed}: ${verdict.entries} entries, ${verdict.removed} removed`)
    t.equal(await checkTree(log.store), null, `seed ${seed}`)
    t.same(log.errors, [])
    await log.store.write(tx => trimLeaves(tx, 256))
    t.same(verified(await exported(log)).faults, [], `seed ${seed}: without the hashes of old leaves`)
    await log.close()
  }
})

t.test('a backup contains the tree and its key', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  for (const name of ['a', 'b', 'c']) await server.createProject({ name, deployPath: join(cwd, name) })
  const options = { cwd, env: { SVC_HOME: server.home } }
  const before = (await server.api('GET', '/api/audit/checkpoint')) as AuditCheckpoint
  t.match(await svc(['backup', 'svc.zip'], options), { code: 0 })
  await server.stop()
  const restored = { cwd, env: { SVC_HOME: join(cwd, 'restored') } }
  t.match(await svc(['restore', 'svc.zip'], restored), { code: 0 })
  const again = await startServe(t, cwd, [], restored.env)
  await again.createProject({ name: 'd', deployPath: join(cwd, 'd') })
  const after = (await again.api('GET', '/api/audit/checkpoint')) as AuditCheckpoint
  t.equal(after.key, before.key)
  const admin = { cwd, env: { SVC_SERVER_URL: again.url, SVC_TOKEN: again.adminToken } }
  t.match(await svc(['audit', 'export', '--out', 'audit.jsonl'], admin), { code: 0 })
  const verdict = verified(readFileSync(join(cwd, 'audit.jsonl')), { anchors: [head(before.note), head(after.note)] })
  t.same(verdict.faults, [])
  t.match(await again.api('GET', '/api/health/detail'), { audit: { ok: true, brokenSince: null } })
})
