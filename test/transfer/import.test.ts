import t from 'tap'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPackage } from '../../lib/transfer/import.js'
import type { ImportRequest } from '../../lib/transfer/import.js'
import type { TransferNeeds } from '../../lib/transfer/needs.js'
import type { LogSourceRecord } from '../../lib/transfer/package.js'
import { createSettings } from '../../lib/system/settings.js'
import type { Store } from '../../lib/store/database.js'
import { findDeployment, listDeployments } from '../../lib/store/tables/deployments.js'
import { listProjects } from '../../lib/store/tables/projects.js'
import { openStage } from '../support/store.js'
import { snapshot } from '../support/tree.js'
import { zipOf } from '../support/zip.js'

const actor = { name: 'test', ip: null }
const request: ImportRequest = { strategy: 'skip-existing', restoreArtifacts: true, dryRun: false, actor }
const overwrite: ImportRequest = { ...request, strategy: 'overwrite' }

/** A store without a server around it, and what an import asks of other rooms written down. */
async function openImport(t: Parameters<typeof openStage>[0], change: Partial<TransferNeeds> = {}) {
  const stage = await openStage(t)
  const home = { directory: stage.directory, deployments: join(stage.directory, 'deployments'), tmp: join(stage.directory, 'tmp') }
  mkdirSync(home.deployments)
  const restored: string[] = []
  const needs: TransferNeeds = {
    ...stage,
    home,
    version: 'test',
    settings: createSettings(stage),
    deployments: {
      hasRunning: () => false,
      readOutput: async () => ({ text: '', truncated: false }),
      restore: async ({ projectId }) => void restored.push(projectId)
    },
    ...change
  }
  let number = 0
  async function take(files: Record<string, unknown>, asked = request, given: Partial<TransferNeeds> = {}) {
    const path = join(stage.directory, `package${++number}.zip`)
    const entries = Object.entries(files).map(([name, value]) => {
      return [`svc-export/${name}`, typeof value === 'string' || value instanceof Uint8Array ? value : JSON.stringify(value)] as const
    })
    writeFileSync(path, await zipOf({ 'svc-export/manifest.json': '{"schemaVersion":1}', ...Object.fromEntries(entries) }))
    return importPackage({ ...needs, ...given }, path, asked)
  }
  return { ...stage, home, needs, restored, take }
}

const project = { id: 'proj_a', name: 'A', deployPath: '/srv/svc-test/a', token: 'token-a' }
const deployment = { id: 'dep_a', projectId: 'proj_a', status: 'success', startTime: '2026-01-31T12:00:00.000Z' }

t.test('an import whose transaction fails leaves records and files as they were', async t => {
  const { store, home, take } = await openImport(t)
  const artifact = await zipOf({ 'a.txt': 'a' })
  const files = {
    'manifest.json': { schemaVersion: 1, artifacts: [{ projectId: 'proj_a', deployId: 'dep_a' }] },
    'projects.json': [project],
    'deployments.json': [deployment],
    'outputs/dep_a.log': '2026-01-31T12:00:00.000Z one\n',
    'artifacts/proj_a.zip': artifact
  }
  await take(files)
  t.strictSame(readdirSync(home.deployments).sort(), ['dep_a.log', 'dep_a.zip'])
  t.equal(findDeployment(store, 'dep_a')?.hasArtifact, true)
  const before = snapshot(home.deployments)
  const broken: Store = { ...store, write: () => Promise.reject(new Error('the disk is full')) }
  const other = { ...files, 'outputs/dep_a.log': '2026-01-31T12:00:00.000Z two\n', 'deployments.json': [deployment, { ...deployment, id: 'dep_b' }] }
  await t.rejects(take(other, overwrite, { store: broken }), { message: 'the disk is full' })
  t.strictSame(snapshot(home.deployments), before)
  t.strictSame(readdirSync(home.tmp), [])
  t.equal(listDeployments(store, { limit: 10 }).length, 1)
  await take(other, overwrite)
  t.match(readFileSync(join(home.deployments, 'dep_a.log'), 'utf8'), 'two')
})

t.test('records that change while the package is unpacked: nothing is written', async t => {
  const { store, take, home } = await openImport(t)
  const racing: Store = {
    ...store,
    write: async work => {
      await take({ 'projects.json': [{ ...project, name: 'first' }] })
      return store.write(work)
    }
  }
  const second = take({ 'projects.json': [{ ...project, name: 'second' }], 'deployments.json': [deployment] }, request, { store: racing })
  await t.rejects(second, { code: 'changed_meanwhile' })
  t.match(listProjects(store), [{ name: 'first' }])
  t.strictSame(readdirSync(home.deployments), [])
})

t.test('lists keep their order', async t => {
  const { store, take } = await openImport(t)
  const ids = ['dep_3', 'dep_2', 'dep_1']
  await take({ 'projects.json': [project, { ...project, id: 'proj_b', deployPath: '/srv/svc-test/b', token: 'b' }], 'deployments.json': ids.map(id => ({ ...deployment, id })) })
  t.strictSame(listDeployments(store, { limit: 10 }).map(({ id }) => id), ids)
  t.strictSame(listProjects(store).map(({ id }) => id), ['proj_a', 'proj_b'])
})

t.test('log sources go along where there is a table for them, and are passed over, with a note, where there is none', async t => {
  const rows = new Map<string, LogSourceRecord>()
  const logSources: TransferNeeds['logSources'] = {
    list: (_, projectId) => [...rows.values()].filter(row => row.projectId === projectId),
    find: (_, id) => rows.get(id),
    insert: (_, row) => void rows.set(row.id, row),
    replace: (_, row) => void rows.set(row.id, row)
  }
  const { take } = await openImport(t)
  const files = { 'projects.json': [project], 'log-sources.json': [{ id: 'lsrc_a', projectId: 'proj_a', filePath: '/var/log/a.log' }] }
  const without = await take(files)
  t.match(without, { logSources: { created: [] }, notes: [/Log sources are not known here/] })
  const result = await take(files, request, { logSources })
  t.strictSame(result.logSources, { created: ['lsrc_a'], replaced: [], skipped: [] })
  t.match(rows.get('lsrc_a'), { label: '/var/log/a.log', kind: 'plain', sortOrder: 0 })
  t.strictSame((await take(files, overwrite, { logSources })).logSources.replaced, ['lsrc_a'])
})

t.test('an artifact that cannot be restored fails by itself', async t => {
  const { take, needs } = await openImport(t)
  const deployments = { ...needs.deployments, restore: () => Promise.reject(new Error('no space')) }
  const result = await take({ 'projects.json': [project], 'artifacts/proj_a.zip': await zipOf({ a: 'a' }) }, request, { deployments })
  t.strictSame(result.artifacts, { created: [], replaced: [], skipped: ['proj_a'], failed: [{ id: 'proj_a', error: 'no space' }] })
  t.strictSame(result.projects.created, ['proj_a'])
})
