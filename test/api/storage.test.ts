import t from 'tap'
import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('storage', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = async () => {
    const reply = await stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    return eventsOf(reply).at(-1).deployId as string
  }
  const ids = [await push(), await push(), await push()]
  const rollback = await client.post(`/api/deployments/${ids[2]}/rollback`)
  const archives = () => readdirSync(stage.home.deployments).filter(name => name.endsWith('.zip')).length

  t.test('counts the archive of a rollback once, because it is the same file', async t => {
    const { status, body } = await client.get('/api/storage')
    t.equal(status, 200)
    t.match(body, {
      home: { path: stage.home.directory, bytes: Number, freeBytes: Number, totalBytes: Number, percentUsed: Number },
      totals: { archives: 3 * bytes.length, logs: Number, tmp: 0, database: Number },
      projects: [{ projectId: shop.id, archiveCount: 4, archiveBytes: 3 * bytes.length, deployPathBytes: 5 }]
    })
    t.ok(body.totals.database > 0 && body.totals.logs > 0 && body.projects[0].logBytes > 0)
  })

  t.test('cleaning: a dry run, then the removal', async t => {
    const stale = join(stage.home.tmp, `${'a'.repeat(43)}.zip`)
    writeFileSync(stale, 'left behind')
    utimesSync(stale, 1_000_000_000, 1_000_000_000)
    const dry = await client.post('/api/storage/clean', { dryRun: true, keep: 1 })
    t.strictSame(dry.body, {
      success: true,
      dryRun: true,
      removed: {
        archives: [ids[2], ids[1], ids[0]].map(deployId => ({ deployId, projectId: shop.id, bytes: bytes.length })),
        temporaryFiles: [{ name: `${'a'.repeat(43)}.zip`, bytes: 11 }],
        unrecordedFiles: []
      },
      unrecordedLeft: [],
      freedBytes: 2 * bytes.length + 11
    })
    t.equal(archives(), 4)
    t.same((await client.post('/api/storage/clean')).body.removed.archives, [], 'the setting keeps ten archives')
    const { body } = await client.post('/api/storage/clean', { keep: 2, projectId: shop.id })
    t.equal(body.removed.archives.length, 2)
    t.equal(archives(), 2)
    t.equal((await client.get(`/api/logs/${ids[0]}`)).body.hasArtifact, false)
    t.equal(
      (await client.get(`/api/logs/${rollback.body.deployId}`)).body.hasArtifact,
      true,
      'the live archive is kept'
    )
    t.equal((await client.get('/api/audit?action=storage.clean')).body.items.length, 2)
  })

  t.test('files without a record are listed, and only removed on request', async t => {
    const name = `dep_${'a'.repeat(16)}.zip`
    const stray = join(stage.home.deployments, name)
    writeFileSync(stray, 'of a lost database')
    t.same((await client.post('/api/storage/clean')).body.unrecordedLeft, [], 'it may still get a record')
    utimesSync(stray, 1_000_000_000, 1_000_000_000)
    const listed = { unrecordedLeft: [{ name, bytes: 18 }], removed: { unrecordedFiles: [] } }
    t.match((await client.post('/api/storage/clean')).body, listed)
    t.match((await client.post('/api/storage/clean', { projectId: shop.id, unrecorded: true })).body, {
      unrecordedLeft: []
    })
    t.ok(existsSync(stray), 'one project: its archives only')
    const asked = { removed: { unrecordedFiles: [{ name, bytes: 18 }] }, unrecordedLeft: [], freedBytes: 18 }
    t.match((await client.post('/api/storage/clean', { dryRun: true, unrecorded: true })).body, asked)
    t.ok(existsSync(stray))
    t.match((await client.post('/api/storage/clean', { unrecorded: true })).body, asked)
    t.notOk(existsSync(stray))
  })

  t.test('refuses invalid values', async t => {
    for (const [body, status] of [
      [{ dryRun: 'yes' }, 400],
      [{ unrecorded: 1 }, 400],
      [{ keep: 0 }, 400],
      [{ keep: 1.5 }, 400],
      [{ projectId: 7 }, 400],
      [{ projectId: 'proj_unknown' }, 404],
      [[], 400]
    ] as const)
      t.equal((await client.post('/api/storage/clean', body)).status, status, JSON.stringify(body))
  })
})
