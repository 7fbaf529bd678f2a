import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ZipSource } from '../../lib/archive/source.js'
import { newEntry, type Entry } from '../../lib/archive/zip-entry.js'
import { crc32 } from '../../lib/base/crc32.js'
import {
  defaultZip64FromBytes,
  directoryOf,
  endBytes,
  localHeader,
  localHeaderBytes
} from '../../lib/shared/zip-records.js'
import { findProgram } from '../support/programs.js'

const source = (path: string, text: string): ZipSource =>
  ({ kind: 'file', path, bytes: text.length, mode: 0o644, mtimeMs: Date.UTC(2026, 0, 2, 3, 4, 6) }) as ZipSource

/** A zip with stored entries, built only from records and contents. */
function zipOf(files: Record<string, string>, zip64FromBytes: number): Buffer {
  const pieces: Buffer[] = []
  const entries: Entry[] = []
  let offset = 0
  for (const [path, text] of Object.entries(files)) {
    const contents = Buffer.from(text)
    const entry = newEntry(source(path, text), offset, zip64FromBytes)
    Object.assign(entry, { crc: crc32(contents), packedBytes: contents.length })
    entries.push(entry)
    const header = localHeader(entry)
    t.equal(header.length, localHeaderBytes(entry), 'a header has the calculated length')
    pieces.push(Buffer.from(header), contents)
    offset += header.length + contents.length
  }
  return Buffer.concat([...pieces, Buffer.from(directoryOf(entries, offset, zip64FromBytes))])
}

const python = findProgram('python3')
const files = { 'a.txt': 'one', 'folder/ü.txt': 'two two', empty: '' }

for (const [what, zip64FromBytes] of [
  ['plain', defaultZip64FromBytes],
  ['with every number in zip64', 0]
] as const) {
  t.test(`Python can read records ${what}`, { skip: python === null && 'python3 is not installed' }, async t => {
    const path = join(t.testdir({}), 'records.zip')
    writeFileSync(path, zipOf(files, zip64FromBytes))
    const script = `import json, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: [z.read(i).decode(), oct(i.external_attr >> 16)] for i in z.infolist()}))`
    const { stdout, stderr } = spawnSync(python as string, ['-c', script, path], { encoding: 'utf8' })
    t.equal(stderr, '')
    const expected = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, [text, '0o100644']]))
    t.strictSame(JSON.parse(stdout), expected)
  })
}

t.test('a directory without entries is only its end record', async t => {
  const end = Buffer.from(directoryOf([], 0, defaultZip64FromBytes))
  t.equal(end.length, endBytes)
  t.equal(end.readUInt32LE(0), 0x06054b50)
})
