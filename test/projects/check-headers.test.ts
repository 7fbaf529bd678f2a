import t from 'tap'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Check, defaultGate, type PolicyChanges } from '../../lib/model/policy.js'
import { hiddenValue } from '../../lib/model/readers.js'
import { sealedHeaders } from '../../lib/projects/seal.js'
import { findProject, insertProject } from '../../lib/store/tables/projects.js'
import { openStage } from '../support/store.js'
import { aProject } from '../store/stage.js'

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
