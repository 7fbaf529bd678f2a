import { readFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createBackups } from '../../lib/backup/backup.js'
import { openBackup } from '../../lib/backup/read-backup.js'
import { sealFile } from '../../lib/backup/seal.js'
import { ensureHome, locateHome } from '../../lib/config/home.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { randomIds } from '../../lib/base/digests.js'
import { systemClock } from '../../lib/base/clock.js'
import { openStore } from '../../lib/store/durable-store.js'

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
