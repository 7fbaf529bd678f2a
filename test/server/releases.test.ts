import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createClient, type Client } from '../support/client.js'
import { contentsOf, type Contents } from '../support/release-contents.js'
import { startServed } from '../support/served.js'
import { svc, svcPath } from '../support/svc.js'
import { zipOf } from '../support/zip.js'

/*
 * Every release from 1.0.0 on can be upgraded. Its data is in test/fixtures/<version>/
 * (support/write-release-fixture.ts). This version must open it, give the same answers, deploy and roll back.
 */
const fixtures = fileURLToPath(new URL('../../../test/fixtures/', import.meta.url))
const releases = readdirSync(fixtures)
  .filter(name => /^\d+\.\d+\.\d+$/.test(name))
  .sort()

interface Written {
  directory: string
  adminToken: string
  contents: Contents
}

/** Starts a server on this data directory; it ends with the test. */
async function serve(t: Test, directory: string) {
  const served = await startServed({
    command: ['/usr/bin/env', '-u', 'NODE_OPTIONS', process.execPath, svcPath, 'serve', '--port', '0'],
    cwd: directory,
    env: { PATH: process.env['PATH'] as string, HOME: directory, SVC_HOME: join(directory, 'home') }
  })
  t.teardown(() => served.stop())
  return { url: served.url, client: createClient(() => served.url, served.adminToken), adminToken: served.adminToken }
}

/**
 * Checks that the answers are those of the release, except for fields that were added since. Further entries of the
 * audit log are allowed.
 */
async function knowsAll(t: Test, client: Client, then: Contents): Promise<void> {
  const now = await contentsOf(client)
  for (const [path, expected] of Object.entries(then)) {
    if (!path.startsWith('/api/audit')) t.match(now[path], expected as object, path)
    else {
      type Items = { items: Array<{ id: string; seq?: number | null }> }
      const kept = (now[path] as Items).items
      for (const { seq, ...entry } of (expected as Items).items)
        t.match(
          kept.find(({ id }) => id === entry.id),
          // The newest entry of then had no place in the tree yet.
          typeof seq === 'number' ? { ...entry, seq } : entry,
          path
        )
    }
  }
}

const named = <T extends { name: string }>(list: unknown, name: string): T =>
  (list as T[]).find(each => each.name === name) as T

/** Deploys to a project of the release, and rolls back to its first deployment. */
async function deploysAndRollsBack(
  t: Test,
  { url, client }: { url: string; client: Client },
  directory: string
): Promise<void> {
  const shop = named<{ id: string; name: string; token: string }>(
    (await client.get('/api/projects')).body,
    'storefront'
  )
  const target = join(directory, 'www')
  const moved = await client.put(`/api/projects/${shop.id}`, { deployPath: target })
  t.equal(moved.status, 200, moved.text)
  const site = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'a later version' }) }
  const pushed = await createClient(() => url, shop.token).upload([
    ['projectId', shop.id],
    ['file', site]
  ])
  t.match(pushed.text, /"status":"success"/, 'the old deploy token still works')
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'a later version')
  const deployments = (await client.get(`/api/logs?projectId=${shop.id}`)).body as Array<{
    id: string
    message: string
  }>
  const first = deployments.find(({ message }) => message === 'First version')
  const back = await client.post(`/api/deployments/${first?.id}/rollback`)
  t.match(back.body, { status: 'success' }, back.text)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'first', 'the archive of the release')
}

async function run(t: Test, directory: string, ...words: string[]): Promise<void> {
  const { code, stderr } = await svc(words, { cwd: directory, env: { SVC_HOME: join(directory, 'home') } })
  t.equal(code, 0, `svc ${words.join(' ')}: ${stderr}`)
}

t.test('has a fixture of at least one release', async t => {
  t.ok(releases.length > 0)
  for (const release of releases) {
    t.same(readdirSync(join(fixtures, release)).sort(), [
      'backup.zip',
      'contents.json',
      'export.zip',
      'killed.tgz',
      'stopped.tgz'
    ])
  }
})

for (const release of releases) {
  const fixture = join(fixtures, release)
  const written = JSON.parse(readFileSync(join(fixture, 'contents.json'), 'utf8')) as Written

  for (const name of ['killed', 'stopped']) {
    t.test(`opens, upgrades and serves a data directory of ${release} that was ${name}`, async t => {
      const directory = t.testdir()
      mkdirSync(join(directory, 'home'), { mode: 0o700 })
      execFileSync('tar', ['xzf', join(fixture, `${name}.tgz`), '--no-same-owner', '-C', join(directory, 'home')])
      const server = await serve(t, directory)
      t.equal(server.adminToken, written.adminToken)
      await knowsAll(t, server.client, written.contents)
      await deploysAndRollsBack(t, server, directory)
    })
  }

  t.test(`restores and serves a backup of ${release}`, async t => {
    const directory = t.testdir()
    await run(t, directory, 'restore', '--check', join(fixture, 'backup.zip'))
    await run(t, directory, 'restore', join(fixture, 'backup.zip'))
    const server = await serve(t, directory)
    t.equal(server.adminToken, written.adminToken)
    await knowsAll(t, server.client, written.contents)
    await deploysAndRollsBack(t, server, directory)
  })

  t.test(`imports and serves an export package of ${release}`, async t => {
    const directory = t.testdir()
    await run(t, directory, 'import', join(fixture, 'export.zip'), '--no-restore-artifacts')
    const server = await serve(t, directory)
    const now = await contentsOf(server.client)
    const sorted = (list: unknown): unknown[] =>
      [...(list as Array<{ id: string }>)].sort((a, b) => (a.id < b.id ? -1 : 1))
    // A package contains the newest archive of each project. The import adds an entry to the audit log.
    const kept = (path: string, ...fields: string[]): unknown[] =>
      sorted(written.contents[path]).map(each =>
        Object.fromEntries(Object.entries(each as object).filter(([field]) => fields.includes(field)))
      )
    const projects = kept(
      '/api/projects',
      'id',
      'name',
      'description',
      'deployPath',
      'token',
      'preDeployScript',
      'postDeployScript',
      'env',
      'tagIds',
      'categoryId',
      'allowedEnv',
      'maxDiskMb'
    )
    t.match(sorted(now['/api/projects']), projects)
    t.match(
      sorted(now['/api/logs?limit=100']),
      kept('/api/logs?limit=100', 'id', 'projectId', 'status', 'startTime', 'endTime', 'message', 'archiveSha256')
    )
    t.match(sorted(now['/api/categories']), kept('/api/categories', 'id', 'name', 'color'))
    t.match(sorted(now['/api/tags']), kept('/api/tags', 'id', 'name', 'color'))
    t.match(now['/api/settings'], { keep_archives: '7', script_timeout: '600' })
    for (const [path, output] of Object.entries(written.contents))
      if (path.endsWith('/output')) t.equal(now[path], output, path)
  })
}
