import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertLabel, insertProject } from '../../../lib/core/store/tables/projects.js'
import { insertNode, insertPlacement } from '../../../lib/core/store/tables/fleet.js'
import { planExport, type ExportRequest } from '../../../lib/carry/transfer/export.js'
import type { TransferNeeds } from '../../../lib/carry/transfer/needs.js'
import { openPackage } from '../../../lib/carry/transfer/package.js'
import { readRecords } from '../../../lib/carry/transfer/records.js'
import { openStage } from '../../support/store.js'

const now = '2026-01-31T12:00:00.000Z'
const whole: ExportRequest = {
  projects: null,
  artifacts: true,
  logs: true,
  recent: null,
  ignore: [],
  ignoreBuiltin: false,
  actor: { name: 'test', ip: null }
}

/** Two projects: `a` has a category and deployments, `b` has a tag. Other modules are stubs. */
async function stageOf(t: Test, rows: Array<Partial<DeploymentRow> & { id: string }> = []) {
  const stage = await openStage(t)
  const deployments = join(stage.directory, 'deployments')
  const sites = join(stage.directory, 'sites')
  for (const name of ['deployments', 'tmp', 'sites/a', 'sites/b'])
    mkdirSync(join(stage.directory, name), { recursive: true })
  for (const name of ['a', 'b']) writeFileSync(join(sites, name, 'file'), `as it lies in ${name}`)
  const projectOf = (id: string, fields: object) => ({
    id,
    name: id,
    deployPath: join(sites, id),
    token: `token-of-${id}-0123456789`,
    ...fields
  })
  const files: Record<string, unknown[]> = {
    'categories.json': [
      { id: 'cat_a', name: 'A' },
      { id: 'cat_none', name: 'none' }
    ],
    'tags.json': [{ id: 'tag_b', name: 'B' }],
    'projects.json': [projectOf('b', { tagIds: ['tag_b'] }), projectOf('a', { categoryId: 'cat_a' })],
    'deployments.json': rows.map(({ id }) => ({ id, projectId: 'a', status: 'success', startTime: now }))
  }
  const records = await readRecords(
    { json: async () => undefined, list: async (name, _, onItem) => files[name]?.forEach(onItem) },
    now
  )
  await stage.store.write(tx => {
    for (const label of records.categories) insertLabel(tx, 'category', label)
    for (const label of records.tags) insertLabel(tx, 'tag', label)
    for (const project of records.projects) insertProject(tx, project)
    for (const [index, { row }] of records.deployments.entries()) insertDeployment(tx, { ...row, ...rows[index] })
  })
  const needs = {
    ...stage,
    home: { directory: stage.directory, deployments, tmp: join(stage.directory, 'tmp') },
    version: 'test',
    deployments: { readOutput: async (id: string) => ({ text: `end of ${id}`, truncated: id === 'dep_long' }) }
  } as unknown as TransferNeeds
  const path = join(stage.directory, 'package.zip')
  async function write(asked: Partial<ExportRequest> = {}, signal?: AbortSignal) {
    const file = await open(path, 'w+')
    try {
      return await planExport(needs, { ...whole, ...asked }).write(file, { signal })
    } finally {
      await file.close()
    }
  }
  /** Reads the package: its records by file, and the text of an entry. */
  async function read() {
    const given = await openPackage(path)
    t.teardown(() => given.close())
    let number = 0
    const list = async (name: string): Promise<Array<Record<string, unknown>>> => {
      const items: Array<Record<string, unknown>> = []
      await given.list(name, 1000, item => void items.push(item as Record<string, unknown>))
      return items
    }
    const text = async (name: string): Promise<string> => {
      const to = join(stage.directory, `entry-${number++}`)
      await given.extract(name, to)
      return readFileSync(to, 'latin1')
    }
    return { ids: async (name: string) => (await list(name)).map(({ id }) => id), list, text, has: given.has }
  }
  return {
    ...stage,
    needs,
    deployments,
    sites,
    write,
    read,
    plan: (asked: Partial<ExportRequest>) => planExport(needs, { ...whole, ...asked })
  }
}

t.test('exports everything, or the selected projects with their labels', async t => {
  const { write, read, plan } = await stageOf(t, [
    { id: 'dep_1' },
    { id: 'dep_2' },
    { id: 'dep_3', status: 'failed' },
    { id: 'dep_4', status: 'running' },
    { id: 'dep_5', status: 'queued' }
  ])
  t.match(await write(), {
    included: ['settings', 'projects', 'deployments', 'artifacts'],
    projectIds: ['a', 'b'],
    deploymentCount: 3,
    version: 'test'
  })
  const { ids } = await read()
  t.strictSame(await ids('categories.json'), ['cat_a', 'cat_none'])
  t.strictSame((await ids('deployments.json')).sort(), ['dep_1', 'dep_2', 'dep_3'], 'those that have ended')

  t.match(await write({ projects: ['b'], logs: false, artifacts: false }), {
    included: ['settings', 'projects'],
    projectIds: ['b'],
    deploymentCount: 0,
    artifacts: []
  })
  const chosen = await read()
  t.strictSame(
    [await chosen.ids('projects.json'), await chosen.ids('categories.json'), await chosen.ids('tags.json')],
    [['b'], [], ['tag_b']]
  )
  t.notOk(chosen.has('deployments.json') || chosen.has('artifacts/b.zip'))
  t.equal((await write({ recent: 2 })).deploymentCount, 2)
  t.throws(() => plan({ projects: ['a', 'gone'] }), { kind: 'not_found', message: /gone|Project/ })
})

t.test(
  'packs the target if the live deployment is an exact rollback, whose archive has only what differed',
  async t => {
    const kept = { hasArtifact: true, archiveBytes: 4, archiveSha256: null, exact: true }
    const { write, read, deployments } = await stageOf(t, [{ id: 'dep_live', ...kept, placed: 2 }])
    writeFileSync(join(deployments, 'dep_live.zip'), 'part')
    t.match((await write()).artifacts, [{ projectId: 'a', deployId: null }, {}])
    t.match(await (await read()).text('artifacts/a.zip'), /^PK.*as it lies in a/s)
  }
)

t.test('exports the archive of the live deployment, or the target', async t => {
  const kept = { hasArtifact: true, archiveBytes: 4, archiveSha256: null }
  const { write, read, plan, deployments } = await stageOf(t, [
    { id: 'dep_old', ...kept, placed: null },
    { id: 'dep_live', ...kept, placed: 2 }
  ])
  for (const id of ['dep_old', 'dep_live']) writeFileSync(join(deployments, `${id}.zip`), id)
  t.equal(plan({}).expectedBytes, 4)
  t.match((await write()).artifacts, [
    { projectId: 'a', deployId: 'dep_live', bytes: 8 },
    { projectId: 'b', deployId: null }
  ])
  const { text, list } = await read()
  t.equal(await text('artifacts/a.zip'), 'dep_live')
  t.match(await text('artifacts/b.zip'), /^PK.*as it lies in b/s)
  t.strictSame((await list('deployments.json')).map(({ id, hasArtifact }) => `${id} ${hasArtifact}`).sort(), [
    'dep_live true',
    'dep_old false'
  ])
  rmSync(join(deployments, 'dep_live.zip'))
  t.match(
    (await write()).artifacts,
    [{ projectId: 'a', deployId: null }, {}],
    'the archive is gone although its record names it: the target is packed'
  )
})

t.test('a project on nodes is exported as its newest release, and without nodes', async t => {
  const kept = { hasArtifact: true, archiveBytes: 4, archiveSha256: null }
  const { write, read, deployments, store } = await stageOf(t, [
    { id: 'dep_here', ...kept, placed: 2 },
    { id: 'dep_rolled_out', ...kept, placed: null, startTime: '2026-02-01T12:00:00.000Z' }
  ])
  for (const id of ['dep_here', 'dep_rolled_out']) writeFileSync(join(deployments, `${id}.zip`), id)
  await store.write(tx => {
    const node = { id: 'node_1', name: 'n1', labels: {}, publicKey: 'a2V5', isDrained: false, enrolledAt: now }
    insertNode(tx, { ...node, lastSeenAt: null, version: null, freeBytes: null, sharedSince: null })
    const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
    for (const projectId of ['a', 'b']) {
      insertPlacement(tx, { projectId, nodeId: 'node_1', deployPath: `/srv/${projectId}`, ...nothing })
    }
  })
  const { artifacts, notes } = await write()
  t.match(artifacts, [{ projectId: 'a', deployId: 'dep_rolled_out' }])
  t.equal(artifacts.length, 1, 'the directory here is not that of the project')
  t.match(notes, [/^"b" \(b\): no archive is kept, and its files are on nodes/])
  const { text, list } = await read()
  t.equal(await text('artifacts/a.zip'), 'dep_rolled_out')
  t.notMatch(JSON.stringify(await list('projects.json')), /node_1|\/srv/)
})

t.test('exports outputs and manifests of any length', async t => {
  const { write, read, deployments } = await stageOf(t, [{ id: 'dep_short' }, { id: 'dep_long' }, { id: 'dep_none' }])
  const long = 'x'.repeat(4 * 1024 * 1024 + 1)
  writeFileSync(join(deployments, 'dep_short.log'), 'one\n')
  writeFileSync(join(deployments, 'dep_long.log'), long)
  const entry = { size: 1, mode: 0o100644, sha256: 'a'.repeat(64), mtimeMs: 1 }
  const line = (before: unknown): string => `${JSON.stringify({ path: 'a', ...entry, ino: 1, before })}\n`
  const many = 32 * 1024
  writeFileSync(join(deployments, 'dep_short.manifest'), `${line('same')}${line(null)}torn "same"}\n`)
  writeFileSync(join(deployments, 'dep_long.manifest'), line('same').repeat(many))
  writeFileSync(join(deployments, 'dep_short.scripted'), 'changed')
  await write({ artifacts: false })
  const { text, has, list } = await read()
  t.equal(await text('outputs/dep_short.log'), 'one\n')
  t.equal((await text('outputs/dep_long.log')).length, long.length)
  t.equal(await text('manifests/dep_short.manifest'), `${line(entry)}${line(null)}torn "same"}\n`, 'with whole lines')
  t.equal(await text('manifests/dep_long.manifest'), line(entry).repeat(many))
  t.equal(await text('manifests/dep_short.scripted'), 'changed')
  t.notOk(has('outputs/dep_none.log') || has('manifests/dep_none.manifest'))
  const given = await list('deployments.json')
  t.strictSame(given.map(({ output, outputTruncated }) => [output, outputTruncated]).sort(), [
    ['end of dep_long', true],
    ['end of dep_none', undefined],
    ['end of dep_short', undefined]
  ])
})

t.test('leaves out a target that cannot be packed, with a note, and leaves nothing behind after an abort', async t => {
  const { write, sites, needs } = await stageOf(t, [{ id: 'dep_1' }])
  rmSync(join(sites, 'a'), { recursive: true })
  const { artifacts, notes } = await write()
  t.strictSame(
    artifacts.map(({ projectId }) => projectId),
    ['b']
  )
  t.match(notes, [/^"a" \(a\): /])
  await t.rejects(write({}, AbortSignal.abort(new Error('gone'))), { message: 'gone' })
  t.strictSame(readdirSync(needs.home.tmp), [])
})
