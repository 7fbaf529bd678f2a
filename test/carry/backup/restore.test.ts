import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { openBackup, checkDatabase, restoreBackup } from '../../../lib/carry/backup/restore.js'
import { ownDirectory } from '../../../lib/core/store/owner.js'
import { forgeBackup, smallHome } from '../../support/backup.js'
import { loadSqlite } from '../../../lib/core/store/memory.js'
import { schemaVersion } from '../../../lib/core/store/schema.js'
import { repetitions } from '../../support/thorough.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../../core/store/stage.js'

async function stageOf(t: Test) {
  const top = t.testdir({})
  const files = await smallHome(join(top, 'source'))
  const path = join(top, 'a.zip')
  await forgeBackup(path, files)
  const directory = join(top, 'a', 'b', 'home')
  return {
    directory,
    top,
    files,
    /** Restores the backup; `force` moves existing files aside. */
    async restore(options: { force?: boolean; signal?: AbortSignal } = {}) {
      const backup = await openBackup(path)
      try {
        return await restoreBackup(backup, {
          directory,
          force: false,
          clock: systemClock,
          ids: { token: () => 'abcdefgh-more' },
          ...options
        })
      } finally {
        backup.close()
      }
    },
    isRestored: () =>
      Object.entries(files).every(([name, bytes]) => Buffer.from(bytes).equals(readFileSync(join(directory, name))))
  }
}

t.test('creates a missing directory with the contents and times of the backup', async t => {
  const { directory, restore, isRestored } = await stageOf(t)
  t.strictSame(await restore(), { aside: null, kept: null, signers: false })
  t.ok(isRestored())
  t.strictSame(readdirSync(directory).sort(), ['config.json', 'deployments', 'svc.db', 'svc.restored'])
  const stats = statSync(join(directory, 'config.json'))
  t.equal(stats.mtimeMs, 1_750_000_000_000)
  t.equal(stats.mode & 0o077, 0, 'only the owner has access')
  t.equal(statSync(directory).mode & 0o077, 0)
})

t.test('refuses a directory with contents, and moves them aside with force', async t => {
  const { directory, restore, isRestored } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, 'svc.db'), 'precious')
  await t.rejects(restore(), { code: 'not_empty', message: /it contains "svc\.db"\. Choose another/ })
  writeFileSync(join(directory, 'config.json'), '{}')
  await t.rejects(restore(), { code: 'not_empty', message: /and 1 more/ })
  t.equal(readFileSync(join(directory, 'svc.db'), 'utf8'), 'precious')
  t.strictSame(
    readdirSync(directory).filter(name => name.startsWith('.')),
    []
  )

  const { aside } = await restore({ force: true })
  t.ok(isRestored())
  t.equal(readFileSync(join(aside as string, 'svc.db'), 'utf8'), 'precious')
})

t.test('keeps the keys that the owner of the machine trusts now', async t => {
  const { directory, restore } = await stageOf(t)
  const signers = join(directory, 'keys/allowed_signers')
  mkdirSync(join(directory, 'keys'), { recursive: true, mode: 0o700 })
  writeFileSync(signers, 'ana ssh-ed25519 AAAA')
  t.match(await restore({ force: true }), { signers: true })
  t.equal(readFileSync(signers, 'utf8'), 'ana ssh-ed25519 AAAA')
})

t.test('refuses a directory in use', async t => {
  const { directory, restore } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const owner = await ownDirectory(directory)
  t.teardown(() => owner.release())
  await t.rejects(restore({ force: true }), { code: 'in_use' })
})

t.test('leaves nothing behind after an abort, not even the directories it created', async t => {
  const { top, restore } = await stageOf(t)
  const aborted = new AbortController()
  aborted.abort(new Error('given up'))
  await t.rejects(restore({ signal: aborted.signal }), { message: 'given up' })
  t.notOk(existsSync(join(top, 'a')))
})

const notRoot = process.getuid?.() === 0 ? false : 'only root can restore for another user'
t.test('gives files that root restores to the owner of the directory', { skip: notRoot }, async t => {
  const { directory, restore } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, 'old.txt'), 'old')
  chownSync(directory, 65534, 65534)
  const { aside } = await restore({ force: true })
  for (const name of ['svc.db', 'config.json', 'deployments', 'deployments/dep_aaaaaaaaaaaaaaaa.log']) {
    t.equal(statSync(join(directory, name)).uid, 65534, name)
  }
  t.equal(statSync(aside as string).uid, 65534)
})

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
    projects: [{ id, name, deployPath, nodes: 0 }],
    deployments: 3,
    missingArchives: ['dep_a'],
    signingKeys: []
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
