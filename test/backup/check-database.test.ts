import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { checkDatabase } from '../../lib/backup/check-database.js'
import { openStore } from '../../lib/store/durable-store.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { schemaVersion } from '../../lib/store/schema.js'
import { loadSqlite } from '../../lib/store/sqlite.js'
import { aDeployment, aProject } from '../store/stage.js'

/** Returns a database with a project and two deployments that have an archive. */
async function database(t: Test): Promise<Uint8Array> {
  const directory = t.testdir({})
  const store = await openStore({ directory })
  await store.write(tx => {
    insertProject(tx, aProject())
    for (const id of ['dep_a', 'dep_b']) insertDeployment(tx, aDeployment({ id, hasArtifact: true }))
    insertDeployment(tx, aDeployment({ id: 'dep_c', hasArtifact: false }))
  })
  await store.close()
  return readFileSync(join(directory, 'svc.db'))
}

/** Returns the same database after a statement of SQL. */
async function changed(file: Uint8Array, sql: string): Promise<Uint8Array> {
  const sqlite = await loadSqlite()
  const db = new sqlite.Database(Buffer.from(file))
  db.run(sql)
  const bytes = db.export()
  db.close()
  return bytes
}

const given = (...archives: string[]) => ({ path: '/backup.zip', archives: new Set(archives) })

t.test('reads projects, deployments and missing archives from a database', async t => {
  const file = await database(t)
  const { id, name, deployPath } = aProject()
  t.strictSame(await checkDatabase(file, given('dep_b')), {
    projects: [{ id, name, deployPath }],
    deployments: 3,
    missingArchives: ['dep_a']
  })
  t.match(await checkDatabase(file, given('dep_a', 'dep_b')), { missingArchives: [] })
})

t.test('refuses a file that is not a database, or the database of another program or of a newer svc', async t => {
  const file = await database(t)
  await t.rejects(checkDatabase(Buffer.from('no database at all'), given()), { code: 'backup_damaged' })
  const torn = Buffer.from(file)
  torn.fill(0xff, torn.length / 2)
  await t.rejects(checkDatabase(torn, given()), { code: 'backup_damaged' })
  await t.rejects(checkDatabase(await changed(file, 'PRAGMA application_id = 1'), given()), { code: 'backup_damaged' })
  const newer = await changed(file, `PRAGMA user_version = ${schemaVersion + 1}`)
  await t.rejects(checkDatabase(newer, given()), { code: 'backup_newer' })
})
