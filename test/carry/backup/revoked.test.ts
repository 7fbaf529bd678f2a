import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readKept, readRestored } from '../../../lib/carry/backup/revoked.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { insertSigningKey } from '../../../lib/core/store/tables/signing-keys.js'
import { aKey } from '../../support/signed-releases.js'
import { layDatabase } from '../../support/new-database.js'

const revokedAt = '2026-05-01T00:00:00.000Z'

t.test('a data directory says which keys were revoked, and is not changed by that', async t => {
  const directory = join(t.testdir({}), 'home')
  mkdirSync(directory)
  t.equal(await readKept(directory), null, 'there is no database')
  await layDatabase(directory)
  const store = await openStore({ directory })
  const ana = aKey('ana', { revokedAt }).row
  await store.write(tx => {
    insertSigningKey(tx, ana)
    insertSigningKey(tx, aKey('bo').row)
  })
  await store.close()
  const look = () => readdirSync(directory).map(name => [name, statSync(join(directory, name)).mtimeMs])
  const before = look()
  const { kind, fingerprint, name } = ana
  const revoked = [{ kind, fingerprint, name, revokedAt }]
  t.strictSame(await readKept(directory), { revoked, sequences: {} })
  t.strictSame(look(), before)

  const earlier = { kind, fingerprint: 'SHA256:x', name: 'x', revokedAt }
  const file = { backupAt: revokedAt, revoked: [earlier], sequences: { proj_a: 7 } }
  writeFileSync(join(directory, 'svc.restored'), JSON.stringify(file))
  t.strictSame(await readRestored(directory), file)
  const both = { revoked: [...revoked, earlier], sequences: { proj_a: 7 } }
  t.strictSame(await readKept(directory), both, 'and what a restore has kept that no start has applied')
  writeFileSync(join(directory, 'svc.restored'), '')
  t.equal(await readRestored(directory), null)

  const path = join(directory, 'svc.db')
  writeFileSync(path, Buffer.concat([Buffer.alloc(200), readFileSync(path).subarray(200)]))
  t.equal(await readKept(directory), null, 'a damaged database says nothing')
})
