import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkSeal, sealFile, sealStream } from '../../lib/backup/seal.js'
import { openArchive } from '../../lib/archive/read.js'
import { zipOf } from '../support/zip.js'

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
