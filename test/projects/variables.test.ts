import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { detailLine } from '../../lib/base/shared/audit.js'
import { systemClock } from '../../lib/base/clock.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { defaultGate } from '../../lib/model/policy.js'
import { createCheckHeaders, createVariablesKey } from '../../lib/projects/seal.js'
import { Variables } from '../../lib/projects/variables.js'
import {
  deleteProject,
  insertProject,
  listSecrets,
  listVariables,
  putVariable,
  updateProject
} from '../../lib/core/store/tables/projects.js'
import { aProject, aStore } from '../core/store/stage.js'

const actor = { name: 'admin', ip: null }
const secret = (name: string, value: string | null = `value of ${name}`) => ({ name, value, secret: true })

async function stage(t: Test) {
  const store = await aStore(t)
  const path = join(t.testdir(), 'variables.key')
  const audits: AuditEvent[] = []
  for (const id of ['proj_a', 'proj_b']) await store.write(tx => insertProject(tx, aProject({ id })))
  const key = createVariablesKey(path)
  const variables = new Variables({
    store,
    clock: systemClock,
    audit: { within: (_, event) => void audits.push(event) },
    key
  })
  return { store, path, key, audits, variables }
}

t.test('seals many simultaneous first secrets with one key', async t => {
  const { store, variables } = await stage(t)
  const names = Array.from({ length: 30 }, (_, index) => `N${index}`)
  await Promise.all(names.map(name => variables.change('proj_a', { set: [secret(name)], unset: [] }, actor)))
  t.equal(listSecrets(store).length, 30)
  t.strictSame(
    (await variables.open('proj_a')).find(({ name }) => name === 'N7'),
    { name: 'N7', value: 'value of N7', secret: true }
  )
  t.equal(await variables.check(), null)
  t.notOk(
    listVariables(store, 'proj_a').some(({ value }) => value.includes('value of')),
    'none is stored as plain text'
  )
})

t.test('cannot open a row copied from another project', async t => {
  const { store, variables } = await stage(t)
  for (const id of ['proj_a', 'proj_b']) await variables.replace(id, [secret('X', `value in ${id}`)], actor)
  const [row] = listVariables(store, 'proj_a')
  await store.write(tx => putVariable(tx, { ...(row as NonNullable<typeof row>), projectId: 'proj_b' }))
  await t.rejects(variables.open('proj_b'), {
    code: 'variables_key',
    message: /Cannot read the secret "X": the stored value is damaged/
  })
  t.match(await variables.check(), { secrets: ['proj_b: X'] })
  t.equal((await variables.open('proj_a'))[0]?.value, 'value in proj_a')
})

t.test('a lost key of headers of checks is reported, and no new key is created', async t => {
  const { store, path, key, variables } = await stage(t)
  const { sealer } = createCheckHeaders({ store, key, log() {} })
  const given = { gate: { ...defaultGate, after: [{ http: 'http://127.0.0.1:1/', header: { 'X-Key': 'value' } }] } }
  const policy = (await sealer([given]))(given, { projectId: 'proj_a', before: {} })
  await store.write(tx => updateProject(tx, 'proj_a', { policy }))
  t.equal(await variables.check(), null)
  const lost = readFileSync(path)
  rmSync(path)
  t.same(await variables.check(), { why: 'the file is missing', secrets: ['proj_a: header X-Key'] })
  await t.rejects(variables.change('proj_b', { set: [secret('X')], unset: [] }, actor), { code: 'variables_key' })
  t.notOk(existsSync(path))
  writeFileSync(path, `${'ab'.repeat(32)}\n`)
  t.match(await variables.check(), { why: /another key/, secrets: ['proj_a: header X-Key'] })
  writeFileSync(path, lost)
  t.equal(await variables.check(), null)
})

t.test('without the key, secrets can be replaced and plain variables be set', async t => {
  const { path, variables, audits } = await stage(t)
  await variables.replace('proj_a', [secret('X'), secret('Y'), { name: 'P', value: '1', secret: null }], actor)
  rmSync(path)
  await t.rejects(variables.open('proj_a'), {
    message: /Cannot read the secrets "X", "Y": the file is missing\. Restore ".*" from a backup, or set them again/
  })
  await t.rejects(variables.change('proj_a', { set: [secret('X')], unset: [] }, actor), { code: 'variables_key' })
  await t.rejects(variables.replace('proj_a', [secret('X'), secret('Y', null)], actor), { code: 'variables_key' })
  await variables.change('proj_a', { set: [{ name: 'P', value: '2', secret: null }], unset: ['Y'] }, actor)
  await variables.change('proj_a', { set: [secret('X', 'another value')], unset: [] }, actor)
  t.match(await variables.open('proj_a'), [
    { name: 'P', value: '2' },
    { name: 'X', value: 'another value' }
  ])
  t.strictSame(
    audits.map(({ detail }) => detailLine(detail ?? '')),
    [
      'Site; variables.P: none → ***; variables.X: none → ***; variables.Y: none → ***; ' +
        'secret.X: none → true; secret.Y: none → true',
      'Site; variables.P: changed; variables.Y: *** → none; secret.Y: true → none',
      'Site; variables.X: changed'
    ]
  )
})

t.test('a plain variable can become a secret without its value, but not the reverse', async t => {
  const { variables } = await stage(t)
  await variables.replace(
    'proj_a',
    [
      { name: 'X', value: 'long enough', secret: null },
      { name: 'S', value: 'x', secret: null }
    ],
    actor
  )
  await t.rejects(variables.change('proj_a', { set: [secret('S', null)], unset: [] }, actor), {
    field: 'variables[0].value',
    message: /too short/
  })
  await variables.change('proj_a', { set: [secret('X', null)], unset: [] }, actor)
  t.match(variables.list('proj_a'), [
    { name: 'S', value: 'x' },
    { name: 'X', value: null, secret: true, hasValue: true }
  ])
  await t.rejects(variables.change('proj_a', { set: [{ name: 'X', value: null, secret: false }], unset: [] }, actor), {
    field: 'variables[0].value',
    message: /is a secret: to make it a plain variable/
  })
  t.strictSame((await variables.open('proj_a'))[1], { name: 'X', value: 'long enough', secret: true })
})

t.test('removes variables with their project', async t => {
  const { store, variables } = await stage(t)
  await variables.replace('proj_a', [secret('X')], actor)
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.strictSame(listVariables(store, 'proj_a'), [])
  t.throws(() => variables.list('proj_a'), { kind: 'not_found', message: /not found/ })
})
