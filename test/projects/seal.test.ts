import t from 'tap'
import { randomBytes } from 'node:crypto'
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createVariablesKey,
  keyBytes,
  keyIdOf,
  keyIdOfSealed,
  needsStoredKey,
  seal,
  sealedBytes,
  sealedHeaders,
  type SealedPlace,
  sealedPlaces,
  unseal
} from '../../lib/projects/seal.js'
import { type Check, defaultGate, type PolicyChanges } from '../../lib/model/policy.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import { Variables } from '../../lib/projects/variables.js'
import { createSealing } from '../../lib/server/front.js'
import type { Transaction } from '../../lib/core/store/database.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { findProject, insertProject, updateProject } from '../../lib/core/store/tables/projects.js'
import { putQueuedRelease } from '../../lib/core/store/tables/fleet.js'
import { insertRollout } from '../../lib/core/store/tables/rollouts.js'
import { putFactor } from '../../lib/core/store/tables/access.js'
import { openStage } from '../support/store.js'
import { insertNamedToken } from '../support/a-token.js'
import { aDeployment, aProject } from '../core/store/stage.js'
import { hiddenValue } from '../../lib/model/readers.js'

const key = randomBytes(keyBytes)
const place = { projectId: 'proj_a', name: 'DB_PASSWORD' }

t.test('opens a sealed value with the same key and place', async t => {
  for (const value of ['hunter22', 'ü\nline', 'x'.repeat(65_536)]) {
    const sealed = seal(key, place, value)
    t.notOk(sealed.includes('hunter'), 'the value is not visible')
    t.equal(unseal(key, place, sealed), value)
    t.equal(sealedBytes(sealed), Buffer.byteLength(value))
    t.equal(keyIdOfSealed(sealed), keyIdOf(key))
    t.not(seal(key, place, value), sealed, 'each has its own nonce')
  }
})

t.test('opens nothing with another key, another place, or a changed byte', async t => {
  const sealed = seal(key, place, 'hunter22')
  t.equal(unseal(randomBytes(keyBytes), place, sealed), null)
  t.equal(unseal(key, { ...place, projectId: 'proj_b' }, sealed), null, 'another project')
  t.equal(unseal(key, { ...place, name: 'DB_PASSWORT' }, sealed), null, 'another name')
  t.equal(unseal(key, { projectId: 'proj_', name: 'aDB_PASSWORD' }, sealed), null)
  const [version, id, ...parts] = sealed.split('.')
  parts.forEach((part, index) => {
    const bytes = Buffer.from(part, 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      const text = [
        version,
        id,
        ...parts.map((each, of) => (of === index ? changed.toString('base64url') : each))
      ].join('.')
      t.equal(unseal(key, place, text), null, `byte ${at} of part ${index}`)
    }
  })
  for (const text of ['', 'hunter22', sealed.slice(0, -30), `v2${sealed.slice(2)}`, `${sealed}.x`])
    t.equal(unseal(key, place, text), null)
})

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
    (tx, sealed) => putQueuedRelease(tx, 'dep_a', { sealed, rollout: {}, role: null, plan: null, isForNodes: false }),
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
    const variables = new Variables({ store, clock, audit: { within() {} }, key })
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

t.test('creates the key once, readable only by its owner', async t => {
  const directory = t.testdir()
  const path = join(directory, 'variables.key')
  const file = createVariablesKey(path)
  t.match(await file.find(), { key: null, isMissing: true, why: /missing/ })
  const keys = await Promise.all([file.create(), file.create(), file.create()])
  t.ok(keys.every(key => key.equals(keys[0] as Buffer) && key.length === 32))
  t.match(readFileSync(path, 'utf8'), /^[0-9a-f]{64}\n$/)
  if (process.platform !== 'win32') t.equal(statSync(path).mode & 0o777, 0o600)
  t.strictSame(readdirSync(directory), ['variables.key'], 'no other file stays')
  t.strictSame(await file.create(), keys[0], 'an existing key is kept')
  const found = await createVariablesKey(path).find()
  t.strictSame(found.key, keys[0])
})

t.test('never replaces a file that is not a key', async t => {
  const path = join(t.testdir(), 'variables.key')
  for (const text of ['', 'x'.repeat(64), 'ab'.repeat(31), 'ab'.repeat(33)]) {
    writeFileSync(path, text)
    const file = createVariablesKey(path)
    t.match(await file.find(), { key: null, isMissing: false, why: /does not contain a key/ })
    await t.rejects(file.create(), { code: 'variables_key', kind: 'unavailable' })
    t.equal(readFileSync(path, 'utf8'), text)
  }
  rmSync(path)
  writeFileSync(path, 'AB'.repeat(32), { mode: 0o600 })
  t.ok((await createVariablesKey(path).find()).key, 'capital hexadecimal digits are accepted')
  chmodSync(path, 0o600)
})

const policyOf = (...after: Check[]): PolicyChanges => ({ gate: { ...defaultGate, after } })
const http = 'http://127.0.0.1:3000/up'
const other = 'http://127.0.0.1:4000/up'
const withToken = (value: string, at = http, name = 'Authorization'): Check => ({ http: at, header: { [name]: value } })
const valuesOf = ({ gate }: PolicyChanges) =>
  gate?.after.map(check => ('http' in check ? Object.values(check.header ?? {}).join() : null))

async function stageOf(t: Parameters<typeof openStage>[0]) {
  const stage = await openStage(t)
  const { headers } = stage
  const place = (before: PolicyChanges = {}) => ({ projectId: 'proj_a', before })
  const sealed = async (policy: PolicyChanges, before: PolicyChanges = {}) =>
    (await headers.sealer([policy]))(policy, place(before))
  return { ...stage, sealed, key: join(stage.directory, 'variables.key') }
}

t.test('a header value is stored encrypted, and opened for its own project and header only', async t => {
  const { sealed, headers } = await stageOf(t)
  const plain = policyOf(withToken('Bearer a'), { tcp: '127.0.0.1:1' }, { http: other })
  const stored = await sealed(plain)
  t.notMatch(JSON.stringify(stored), 'Bearer a')
  t.same(await headers.open('proj_a', stored), plain)
  await t.rejects(headers.open('proj_b', stored), {
    code: 'variables_key',
    message: /"Authorization".*another project/
  })
  const renamed = policyOf(withToken(valuesOf(stored)?.[0] ?? '', http, 'Cookie'))
  await t.rejects(headers.open('proj_a', renamed), { code: 'variables_key' })
  const forged = await sealed(policyOf(withToken(valuesOf(stored)?.[0] ?? '')))
  t.not(valuesOf(forged)?.[0], valuesOf(stored)?.[0], 'a request cannot give an encrypted value')
})

t.test('*** keeps the stored value of the check', async t => {
  const { sealed, headers } = await stageOf(t)
  const before = await sealed(policyOf(withToken('one'), withToken('two'), withToken('three', other)))
  const kept = async (...after: Check[]) =>
    valuesOf(await headers.open('proj_a', await sealed(policyOf(...after), before)))
  t.same(await kept(withToken(hiddenValue), withToken(hiddenValue)), ['one', 'two'], 'of the same place')
  t.same(await kept(withToken(hiddenValue, other), withToken('new')), ['three', 'new'], 'of the same address')
  t.same(await kept(withToken(hiddenValue, 'http://127.0.0.1:5000/')), ['one'], 'of the place, if the address changed')
  t.same(await kept(withToken(hiddenValue, http, 'authorization')), ['one'], 'in any letter case')
  await t.rejects(kept(withToken(hiddenValue, http, 'Cookie')), {
    code: 'invalid',
    field: 'policy.gate.after[0].header.Cookie'
  })
})

t.test('a *** of a package is kept until somebody sets the value, and cannot be opened', async t => {
  const { headers } = await stageOf(t)
  const given = policyOf(withToken(hiddenValue))
  const stored = (await headers.sealer([given], { keepsUnknown: true }))(given, { projectId: 'proj_a', before: {} })
  t.same(valuesOf(stored), [hiddenValue])
  await t.rejects(headers.open('proj_a', stored), { message: /"Authorization".*no value yet.*Set it/ })
})

t.test('seals what an earlier version stored as it was', async t => {
  const { store, headers } = await stageOf(t)
  const policy = policyOf(withToken('Bearer old'))
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_a', policy })))
  t.same(sealedHeaders(store), [])
  t.same(await headers.open('proj_a', policy), policy, 'until then the value is used as it is')
  await headers.sealStored()
  t.match(sealedHeaders(store), [{ projectId: 'proj_a', name: 'Authorization' }])
  const stored = findProject(store, 'proj_a')?.policy ?? {}
  t.notMatch(JSON.stringify(stored), 'Bearer old')
  t.same(await headers.open('proj_a', stored), policy)
  await headers.sealStored()
  t.same(findProject(store, 'proj_a')?.policy, stored, 'nothing is left to be sealed')
})

t.test('a lost key is reported, and no new one hides the loss', async t => {
  const { store, sealed, headers, key } = await stageOf(t)
  const policy = await sealed(policyOf(withToken('Bearer a')))
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_a', policy })))
  rmSync(key)
  await t.rejects(headers.open('proj_a', policy), { code: 'variables_key', message: /the file is missing/ })
  await t.rejects(sealed(policyOf(withToken('b'))), { code: 'variables_key' })
  t.same(await sealed(policyOf(withToken(hiddenValue)), policy), policy, 'a change that keeps the values needs no key')
  writeFileSync(key, `${'0'.repeat(64)}\n`)
  await t.rejects(headers.open('proj_a', policy), { message: /another key/ })
})
