import t from 'tap'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  backupFormat,
  checkSeal,
  isOfDeployments,
  listOthers,
  sealFile,
  sealStream,
  summaryOf
} from '../../../lib/carry/backup/format.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { zipOf } from '../../support/zip.js'

t.test('counts files and bytes in the summary of a manifest', async t => {
  const file = { sha256: '', mtimeMs: 0 }
  const facts = { createdAt: 'then', version: '1.0.0', schemaVersion: 3, host: 'here', directory: '/d', notes: ['a'] }
  const files = [
    { ...file, path: 'svc.db', bytes: 7 },
    { ...file, path: 'config.json', bytes: 5 }
  ]
  t.strictSame(summaryOf({ ...facts, format: backupFormat, files }), { ...facts, files: 2, bytes: 12 })
  t.match(summaryOf({ ...facts, format: backupFormat, files: [] }), { files: 0, bytes: 0 })
})

t.test('includes permanent files and excludes temporary ones', async t => {
  const directory = t.testdir({
    'config.json': '{}',
    'svc.db': 'image',
    'svc.db-redo': 'log',
    'session.key': 'key',
    'half.tmp': 'half',
    'before-restore-1': { 'old.txt': 'old' },
    tmp: { 'a.zip': 'zip' },
    witness: { '0a1b2c3d.note': 'seen' },
    node: { 'svc.db': 'that of the agent' },
    '.cluster-init': { complete: '1' },
    keys: { 'server.ed25519': 'key' },
    deployments: { 'dep_a.zip': 'zip' },
    pm2: { 'out.log': 'said', 'app.pid': '1', tmp: { kept: 'deeper names are not ours' } }
  })
  const { files, notes } = await listOthers(directory)
  t.same(
    files.map(({ path, bytes }) => [path, bytes]),
    [
      ['config.json', 2],
      ['keys/server.ed25519', 3],
      ['pm2/out.log', 4],
      ['pm2/tmp/kept', 25]
    ]
  )
  t.same(notes, [])
})

t.test('leaves out links with a note, but follows that of config.json', async t => {
  const elsewhere = t.testdir({
    real: '{"a":1}',
    link: t.fixture('symlink', 'real'),
    'config.json': t.fixture('symlink', 'real')
  })
  const { files, notes } = await listOthers(elsewhere)
  t.same(
    files.map(({ path }) => path),
    ['config.json', 'real']
  )
  t.equal(notes.length, 1)
  t.match(notes[0], /"link"/)
})

t.test('leaves out undo journals and unfinished files of deployments', async t => {
  for (const name of ['dep_a.zip', 'dep_a.log', 'dep_a.manifest']) t.ok(isOfDeployments(name), name)
  for (const name of ['dep_a.undo', 'dep_a.helper', 'dep_a.manifest.tmp', '.hidden'])
    t.notOk(isOfDeployments(name), name)
})

const limits = { maxEntries: 10, maxExtractedBytes: 1000 }

async function sealed(pieces: Buffer[]): Promise<Buffer> {
  const out: Buffer[] = []
  for await (const piece of sealStream(
    (async function* () {
      yield* pieces
    })()
  ))
    out.push(Buffer.from(piece))
  return Buffer.concat(out)
}

t.test('gives the same result for a sealed file and a sealed stream, which is still a zip', async t => {
  const path = join(t.testdir({}), 'a.zip')
  const zip = await zipOf({ 'svc-backup/a.txt': 'one' })
  writeFileSync(path, zip)
  const told: number[] = []
  await sealFile(path, { onProgress: bytes => void told.push(bytes) })
  t.equal(told.at(-1), zip.length)
  const file = readFileSync(path)
  const body = file.subarray(0, file.length - 82)
  t.equal(file.subarray(body.length).toString(), `svc-backup sha256 ${createHash('sha256').update(body).digest('hex')}`)
  await checkSeal(path)
  const archive = await openArchive(path, limits)
  t.strictSame(
    archive.entries.map(({ path }) => path),
    ['svc-backup/a.txt']
  )
  archive.close()
  for (let at = 0; at <= zip.length; at++) {
    const cut = await sealed([zip.subarray(0, at), zip.subarray(at)])
    if (!cut.equals(file)) t.fail(`cut at ${at}`)
  }
  t.ok((await sealed(Array.from(zip, byte => Buffer.from([byte])))).equals(file), 'one byte at a time')
})

t.test('does not seal a stream that breaks off', async t => {
  const zip = await zipOf({ 'svc-backup/a.txt': 'one' })
  await t.rejects(sealed([zip.subarray(0, -1)]), /it has no end record/)
  await t.rejects(sealed([]), /it has no end record/)
})

t.test('refuses a file that is not a sealed backup and says what it is', async t => {
  const directory = t.testdir({})
  const good = await sealed([await zipOf({ 'svc-backup/a.txt': 'one' })])
  const table: Array<[what: string, bytes: Buffer, code: string, sentence: RegExp]> = [
    ['nothing', Buffer.alloc(0), 'not_a_backup', /it is empty/],
    ['text', Buffer.from('hello, this is no zip at all'), 'not_a_backup', /it is not a backup of svc/],
    [
      'another zip',
      await zipOf({ 'index.html': 'a page that is long enough to be read' }),
      'not_a_backup',
      /it is a zip, but not a backup/
    ],
    ['a package of export', await zipOf({ 'svc-export/settings.json': '{}' }), 'not_a_backup', /Use "svc import"/],
    [
      'a backup that was packed again',
      await zipOf({ 'svc-backup/a.txt': 'one' }),
      'backup_truncated',
      /truncated or was changed/
    ],
    ['one byte short', good.subarray(0, -1), 'backup_truncated', /truncated/],
    ['half of a backup', good.subarray(0, good.length / 2), 'backup_truncated', /truncated/],
    ['with more behind it', Buffer.concat([good, Buffer.from('\n')]), 'backup_truncated', /truncated or was changed/],
    [
      'one letter changed',
      Buffer.concat([good.subarray(0, 50), Buffer.from('!'), good.subarray(51)]),
      'backup_damaged',
      /SHA-256.*Use another backup/
    ]
  ]
  for (const [what, bytes, code, sentence] of table) {
    const path = join(directory, 'x.zip')
    writeFileSync(path, bytes)
    await t.rejects(checkSeal(path), { code, message: sentence }, what)
  }
})
