import t from 'tap'
import type { Test } from 'tap'
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { createBackups, takeSnapshot } from '../../../lib/carry/backup/backup.js'
import { openBackup } from '../../../lib/carry/backup/read.js'
import { sealFile } from '../../../lib/carry/backup/format.js'
import { ensureHome, locateHome } from '../../../lib/base/config/home.js'
import type { AuditEvent } from '../../../lib/model/audit.js'
import { randomIds } from '../../../lib/base/digests.js'
import { systemClock } from '../../../lib/base/clock.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../../core/store/stage.js'

const actor = { name: 'local', ip: null } as unknown as AuditEvent['actor']

async function stage(t: Test) {
  const top = t.testdir({})
  const home = locateHome({ SVC_HOME: join(top, 'home') }, top)
  await ensureHome(home)
  writeFileSync(join(home.directory, 'config.json'), '{"token":"x"}')
  const store = await openStore({ directory: home.directory })
  t.teardown(() => store.close())
  const audits: AuditEvent[] = []
  const audit = { record: async (event: AuditEvent) => void audits.push(event) }
  const backups = createBackups({ store, home, clock: systemClock, ids: randomIds, version: '9.9.9', audit })
  return { backups, audits, top, home }
}

t.test('writes a backup with the digest of every file, an audit entry and progress', async t => {
  const { backups, audits, top, home } = await stage(t)
  const path = join(top, 'backup.zip')
  const out = await open(path, 'w')
  const told: number[] = []
  const onBegin = (bytes: number): void => void told.push(bytes)
  const manifest = await backups.write(out, { actor, onBegin, onProgress: bytes => void told.push(bytes) })
  await out.close()
  t.match(audits, [{ action: 'backup.create', actor }])
  t.match(manifest, { version: '9.9.9', directory: home.directory, notes: [] })
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0)
  t.ok((told[0] as number) >= bytes, 'the expected size is reported first')
  t.ok(told.length > 1)
  await sealFile(path)
  const backup = await openBackup(path)
  await backup.readAll({})
  backup.close()
  const names = manifest.files.map(file => file.path)
  for (const name of ['svc.db', 'config.json']) t.ok(names.includes(name), name)
  const config = manifest.files.find(file => file.path === 'config.json')
  t.equal(config?.bytes, readFileSync(join(home.directory, 'config.json')).length)
  t.match(config?.sha256, /^[0-9a-f]{64}$/)
})

t.test('stops when it is aborted', async t => {
  const { backups, top } = await stage(t)
  const out = await open(join(top, 'backup.zip'), 'w')
  t.teardown(() => out.close())
  await t.rejects(backups.write(out, { actor, signal: AbortSignal.abort(new Error('enough')) }), { message: 'enough' })
})

const hour = 3_600_000

async function stageOf(t: Test) {
  const directory = t.testdir({ deployments: {}, tmp: {}, 'config.json': '{}\n', 'serve.log': 'started\n' })
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  await store.write(tx => insertProject(tx, aProject()))
  return {
    home,
    record: (id: string, status: 'running' | 'success', hasArtifact = true) =>
      store.write(tx => insertDeployment(tx, aDeployment({ id, status, hasArtifact }))),
    /** Returns the path of a file of deployments/ that was last written the given time ago. */
    put(name: string, text: string, agoMs = hour) {
      const path = join(home.deployments, name)
      writeFileSync(path, text)
      const at = (Date.now() - agoMs) / 1000
      utimesSync(path, at, at)
    },
    take: () => takeSnapshot({ store, home, clock: systemClock, ids: { token: () => 'scratch' } })
  }
}

t.test('includes before-images, also of a deployment whose archive was removed', async t => {
  const { record, put, take } = await stageOf(t)
  await record('dep_kept', 'success')
  await record('dep_pruned', 'success', false)
  for (const id of ['dep_kept', 'dep_pruned']) put(`${id}.before.zip`, 'before')
  const { files, discard } = await take()
  const names = files.map(({ path }) => path).filter(path => path.startsWith('deployments/'))
  t.strictSame(names.sort(), ['deployments/dep_kept.before.zip', 'deployments/dep_pruned.before.zip'])
  await discard()
})

t.test('includes the files that the records name, at the size they had', async t => {
  const { home, record, put, take } = await stageOf(t)
  await record('dep_over', 'success')
  await record('dep_on', 'running')
  for (const id of ['dep_over', 'dep_on']) {
    put(`${id}.zip`, 'archive')
    put(`${id}.log`, 'one\n')
  }
  put('dep_over.manifest', '{}\n')
  put('dep_on.undo', 'a journal')
  put('dep_on.manifest.tmp', 'half')
  put('dep_lost.zip', 'without a record, and old')
  put('dep_new.zip', 'its record is about to be written', 0)
  mkdirSync(join(home.deployments, 'dep_directory.zip'))

  const snapshot = await take()
  writeFileSync(join(home.deployments, 'dep_on.log'), 'two\n', { flag: 'a' })
  const found = snapshot.files.filter(({ path }) => path.startsWith('deployments/'))
  t.strictSame(
    found.map(({ path, bytes, isGrowing }) => [path.slice('deployments/'.length), bytes, isGrowing]),
    [
      ['dep_lost.zip', 25, false],
      ['dep_on.log', 4, true],
      ['dep_on.zip', 7, false],
      ['dep_over.log', 4, true],
      ['dep_over.manifest', 3, false],
      ['dep_over.zip', 7, false]
    ]
  )
  t.strictSame(
    snapshot.files.filter(file => !found.includes(file)).map(({ path, isGrowing }) => [path, isGrowing]),
    [
      ['svc.db', false],
      ['config.json', false],
      ['serve.log', true]
    ]
  )
  t.equal(
    snapshot.files.find(({ path }) => path === 'svc.db')?.bytes,
    readFileSync(join(home.tmp, 'scratch.backup/svc.db')).length
  )
  await snapshot.discard()
  t.strictSame(readdirSync(home.tmp), [])
})

t.test('reads an archive that retention removes during the backup', async t => {
  const { home, record, put, take } = await stageOf(t)
  await record('dep_over', 'success')
  put('dep_over.zip', 'archive')
  const snapshot = await take()
  rmSync(join(home.deployments, 'dep_over.zip'))
  const archive = snapshot.files.find(({ path }) => path === 'deployments/dep_over.zip')
  t.equal(readFileSync(archive?.source as string, 'utf8'), 'archive')
  await snapshot.discard()
})

t.test('leaves nothing in tmp if a snapshot fails', async t => {
  const { home, take } = await stageOf(t)
  mkdirSync(join(home.tmp, 'scratch.backup/svc.db'), { recursive: true })
  await t.rejects(take(), { code: 'EEXIST' }, 'the image cannot be written')
  t.strictSame(readdirSync(home.tmp), [])
})
