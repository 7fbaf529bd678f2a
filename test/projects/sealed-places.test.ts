import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { defaultGate } from '../../lib/model/gate.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import { needsStoredKey, sealedPlaces } from '../../lib/projects/sealed-places.js'
import { seal, type SealedPlace } from '../../lib/projects/seal.js'
import { createVariables } from '../../lib/projects/variables.js'
import { createVariablesKey } from '../../lib/projects/variables-key.js'
import { createSealing } from '../../lib/server/sealing.js'
import type { Transaction } from '../../lib/store/database.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject, updateProject } from '../../lib/store/tables/projects.js'
import { putQueuedRelease } from '../../lib/store/tables/fleet.js'
import { insertRollout } from '../../lib/store/tables/rollouts.js'
import { putFactor } from '../../lib/store/tables/access.js'
import { openStage } from '../support/store.js'
import { insertNamedToken } from '../support/a-token.js'
import { aDeployment, aProject } from '../store/stage.js'

const at = '2030-01-01T00:00:00.000Z'
const factor = { confirmedAt: at, lastStep: 0, recovery: [], wrongAt: [], lockedUntil: null }
const rollout = {
  id: 'ro_a',
  projectId: 'proj_a',
  number: 1,
  deployId: 'dep_a',
  treeSha256: 'a',
  archiveSha256: 'b',
  archiveBytes: 1,
  policy: defaultRolloutPolicy,
  state: 'swapping',
  wave: 1,
  waves: 1,
  lastAttempt: 0,
  pausedUntil: null,
  revertFrom: null,
  haltedReason: null,
  createdAt: at,
  endedAt: null
} as const
const check = { http: 'http://127.0.0.1/', header: { Authorization: '' } }

/** Writes a sealed text in each column, and removes the need for it. */
const doors: Record<keyof typeof sealedPlaces, [put: (tx: Transaction, sealed: string) => void, end: string]> = {
  'variables.value': [
    (tx, sealed) =>
      tx.run(
        "INSERT INTO variables (projectId, name, value, secret, updatedAt) VALUES ('proj_a', 'A', ?, 1, ?)",
        sealed,
        at
      ),
    'DELETE FROM variables'
  ],
  'projects.policy': [
    (tx, sealed) =>
      updateProject(tx, 'proj_a', {
        policy: {
          gate: { ...defaultGate, after: [{ ...check, header: { Authorization: `sealed:${sealed}` } }] }
        }
      }),
    "UPDATE projects SET policy = '{}'"
  ],
  'secondFactors.secret': [
    (tx, secret) => putFactor(tx, { ...factor, tokenId: 'tok_a', secret }),
    'DELETE FROM secondFactors'
  ],
  'rollouts.sealed': [
    (tx, sealed) => insertRollout(tx, { ...rollout, sealed }),
    `UPDATE rollouts SET endedAt = '${at}'`
  ],
  'queuedReleases.sealed': [
    (tx, sealed) => putQueuedRelease(tx, 'dep_a', { sealed, rollout: {}, role: null }),
    "UPDATE deployments SET status = 'failed'"
  ]
}

/** What the text of each column is bound to, and how users read of it. */
const told: Record<keyof typeof sealedPlaces, [place: SealedPlace, name: string]> = {
  'variables.value': [{ projectId: 'proj_a', name: 'A' }, 'proj_a: A'],
  'projects.policy': [{ projectId: 'proj_a', name: 'header authorization' }, 'proj_a: header Authorization'],
  'secondFactors.secret': [{ projectId: 'tok_a', name: 'second factor' }, 'second factor of ana'],
  'rollouts.sealed': [{ projectId: 'dep_a', name: 'rollout' }, 'proj_a: rollout ro_a'],
  'queuedReleases.sealed': [{ projectId: 'dep_a', name: 'rollout' }, 'proj_a: queued deployment dep_a']
}

t.test('a lost key is named with what it encrypted, and replaced only if nothing of that is still needed', async t => {
  for (const column of Object.keys(doors) as Array<keyof typeof doors>) {
    const [[put, end], [place, name]] = [doors[column], told[column]]
    const { store, directory, clock } = await openStage(t)
    const path = join(directory, 'variables.key')
    const key = createVariablesKey(path)
    const sealing = createSealing(store, key, 'second factor')
    const variables = createVariables({ store, clock, audit: { within() {} }, key })
    const sealed = seal(await key.create(), place, 'secret')
    await store.write(tx => {
      insertProject(tx, aProject({ id: 'proj_a' }))
      insertDeployment(tx, aDeployment({ id: 'dep_a', projectId: 'proj_a', status: 'queued' }))
      insertNamedToken(tx, { id: 'tok_a', name: 'ana' })
      put(tx, sealed)
    })
    t.equal(await variables.check(), null, `${column} opens`)
    rmSync(path)
    t.ok(needsStoredKey(store), column)
    t.same(await variables.check(), { why: 'the file is missing', secrets: [name] })
    const { cure } = sealedPlaces[column]
    const message = `Cannot use the key of the secrets: the file is missing. Restore "${path}" from a backup, or ${cure}`
    await t.rejects(sealing.seal('tok_b', 'x'), { code: 'variables_key', message }, column)
    await store.write(tx => tx.run(end))
    t.notOk(needsStoredKey(store), `${column}, no longer needed`)
    t.equal(await variables.check(), null)
    t.type(await sealing.seal('tok_b', 'x'), 'string')
  }
})

t.test('every column for something encrypted is listed', async t => {
  const { store } = await openStage(t)
  const tables = store.all("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => String(name))
  const columns = tables.flatMap(table =>
    store.all(`SELECT name FROM pragma_table_info('${table}')`).map(({ name }) => `${table}.${String(name)}`)
  )
  const found = columns.filter(column => /\.(sealed|secret)$/.test(column) && column !== 'variables.secret')
  // The secrets of notification targets are stored as they are: the server signs messages with them.
  const expected = [...Object.keys(sealedPlaces).filter(column => found.includes(column)), 'notificationTargets.secret']
  t.strictSame(found.sort(), expected.sort())
  for (const column of Object.keys(sealedPlaces)) t.ok(columns.includes(column), column)
})
