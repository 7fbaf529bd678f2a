import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openBackup } from '../../../lib/carry/backup/read.js'
import { forgeBackup, smallHome } from '../../support/backup.js'
import { loadSqlite } from '../../../lib/core/store/memory.js'
import { schemaVersion } from '../../../lib/core/store/schema.js'
import { repetitions } from '../../support/thorough.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../../core/store/stage.js'

async function readWhole(path: string): Promise<void> {
  const backup = await openBackup(path)
  try {
    await backup.readAll({})
  } finally {
    backup.close()
  }
}

t.test('finds every flipped bit and every truncation of a backup', async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a.zip')
  await forgeBackup(path, await smallHome(join(directory, 'home')))
  await readWhole(path)
  const good = readFileSync(path)
  const copy = join(directory, 'b.zip')
  let found = 0
  let changed = 0
  for (let at = 0; at < good.length; at += repetitions(9, 1)) {
    changed++
    const bytes = Buffer.from(good)
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8))
    writeFileSync(copy, bytes)
    const error = await openBackup(copy).then(
      backup => (backup.close(), null),
      error => error as { code: string }
    )
    if (error !== null && /^(not_a_backup|backup_damaged|backup_truncated)$/.test(error.code)) found++
    else t.fail(`byte ${at}: ${error?.code}`)
  }
  t.equal(found, changed, `${changed} of ${good.length} bytes`)
  for (let bytes = 0; bytes < good.length; bytes += repetitions(63, 7)) {
    writeFileSync(copy, good.subarray(0, bytes))
    await t.rejects(openBackup(copy), { name: 'Refusal' }, `${bytes} bytes of ${good.length}`)
  }
})

t.test('refuses invalid contents with a valid seal', async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a.zip')
  const files = await smallHome(join(directory, 'home'))
  const sqlite = await loadSqlite()
  const other = (sql: string): Uint8Array => {
    const database = new sqlite.Database(files['svc.db'])
    database.exec(sql)
    return database.export()
  }
  const torn = Buffer.from(files['svc.db'] as Uint8Array)
  torn.fill(0xff, 4096 * 3, 4096 * 4)
  const { 'svc.db': database, ...withoutDatabase } = files
  const table: Array<
    [
      what: string,
      files: Record<string, Uint8Array>,
      forging: Parameters<typeof forgeBackup>[2],
      code: string,
      sentence: RegExp
    ]
  > = [
    [
      'a newer format',
      files,
      { lies: { format: 2 } },
      'backup_newer',
      /its format is 2, but this svc supports at most 1\. Install that svc first/
    ],
    ['no format', files, { lies: { format: 'x' } }, 'not_a_backup', /has no format/],
    ['a list of the wrong type', files, { lies: { files: 'all' } }, 'backup_damaged', /incomplete/],
    [
      'a list that is too long',
      files,
      { lies: { notes: ['x'.repeat(2 * 1024 * 1024)] } },
      'backup_damaged',
      /list of files is too long/
    ],
    [
      'an incomplete list',
      files,
      { extra: { 'more.txt': Buffer.from('x') } },
      'backup_damaged',
      /files that are not in the list of files/
    ],
    [
      'a list with a missing file',
      files,
      { lies: { files: [{ path: 'x', bytes: 1, sha256: '0'.repeat(64), mtimeMs: 1 }] } },
      'backup_damaged',
      /x is missing/
    ],
    ['no database', withoutDatabase, {}, 'backup_damaged', /svc\.db is missing/],
    ['a damaged database', { ...files, 'svc.db': torn }, {}, 'backup_damaged', /its database/],
    [
      'a file that is not a database',
      { ...files, 'svc.db': Buffer.from('no database') },
      {},
      'backup_damaged',
      /its database/
    ],
    [
      'the database of another program',
      { ...files, 'svc.db': other('PRAGMA application_id = 1') },
      {},
      'backup_damaged',
      /belongs to another program/
    ],
    [
      'a newer schema',
      { ...files, 'svc.db': other(`PRAGMA user_version = ${schemaVersion + 1}`) },
      {},
      'backup_newer',
      new RegExp(
        `schema version ${schemaVersion + 1}, but this svc supports at most ${schemaVersion}. Install that svc first`
      )
    ]
  ]
  for (const [what, given, forging, code, sentence] of table) {
    await forgeBackup(path, given, forging)
    await t.rejects(openBackup(path), { code, message: sentence }, what)
  }
  t.ok(database)

  for (const name of [
    '.restored/aside',
    '.restore-arriving/data/config.json',
    '.restore-x/data/config.json',
    '.RESTORED/aside',
    'before-restore-2026/old',
    '.cluster-init/complete',
    'svc.db-redo',
    'svc.sock',
    'session.key',
    'tmp/a.zip',
    'trees/proj_a',
    'node/agent.json',
    'witness/a.note',
    'deployments/dep_a.undo',
    'deployments/dep_a.UNDO',
    'deployments/below/dep_a.zip',
    'deployments/.hidden',
    'pm2/app.pid',
    'config.json.tmp'
  ]) {
    await forgeBackup(path, { ...files, [name]: Buffer.from('x') })
    await t.rejects(openBackup(path), { code: 'backup_damaged', message: /does not belong in a backup/ }, name)
  }
  await forgeBackup(path, { ...files, 'CONFIG.json': Buffer.from('{}') })
  await t.rejects(openBackup(path), { code: 'backup_damaged', message: /same name as/ })
  const list = await listOf(path, files)
  await forgeBackup(path, files, { lies: { files: [...list.slice(0, -1), list[0]] } })
  await t.rejects(openBackup(path), { code: 'backup_damaged', message: /twice/ })

  const wrong = JSON.parse(JSON.stringify(await listOf(path, files)))
  wrong.find((file: { path: string }) => file.path === 'config.json').sha256 = '0'.repeat(64)
  await forgeBackup(path, files, { lies: { files: wrong } })
  await t.rejects(readWhole(path), {
    code: 'backup_damaged',
    message: /the SHA-256 of config\.json is wrong/
  })
})

async function listOf(path: string, files: Record<string, Uint8Array>): Promise<readonly object[]> {
  await forgeBackup(path, files)
  const backup = await openBackup(path)
  backup.close()
  return backup.files
}

/** Returns a database with a project and two deployments that have an archive. */
async function database(directory: string): Promise<Uint8Array> {
  const store = await openStore({ directory })
  await store.write(tx => {
    insertProject(tx, aProject())
    for (const id of ['dep_a', 'dep_b']) insertDeployment(tx, aDeployment({ id, hasArtifact: true }))
    insertDeployment(tx, aDeployment({ id: 'dep_c', hasArtifact: false }))
  })
  await store.close()
  return readFileSync(join(directory, 'svc.db'))
}

t.test('reads projects, deployments and missing archives from the database', async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a.zip')
  const file = await database(directory)
  const { id, name, deployPath } = aProject()
  const read = async (...archives: string[]) => {
    const kept = archives.map(id => [`deployments/${id}.zip`, Buffer.from('x')])
    await forgeBackup(path, { 'svc.db': file, ...Object.fromEntries(kept) })
    const backup = await openBackup(path)
    backup.close()
    return backup.database
  }
  t.strictSame(await read('dep_b'), {
    projects: [{ id, name, deployPath, nodes: 0 }],
    deployments: 3,
    missingArchives: ['dep_a'],
    signingKeys: []
  })
  t.match(await read('dep_a', 'dep_b'), { missingArchives: [] })
})
