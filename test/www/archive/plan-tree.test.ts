import t from 'tap'
import { readTree } from '../../../lib/core/archive/tree-wire.js'
import { createContentsDigest, createTreeDigest } from '../../../lib/model/manifest.js'
import { sha256 } from '../../../lib/base/digests.js'
import { digestDropped, planBody, treeOfFiles, treeOfZip } from '../../../www/archive/plan-tree.js'
import { readZip } from '../../../www/archive/read-zip.js'
import { packZip } from '../../../www/archive/zip.js'
import { zipOf } from '../../support/zip.js'

const options = () => ({ signal: new AbortController().signal, onProgress: () => {} })
const lastModified = Date.UTC(2024, 1, 29, 12, 30, 15, 999)
const fileOf = (contents: string | Uint8Array<ArrayBuffer>) => Object.assign(new Blob([contents]), { lastModified })
const large = new Uint8Array(9 * 1024 * 1024).map((_, at) => (at * 2654435761) >>> 24)
const dropped = [
  { path: 'z.txt', file: fileOf('z') },
  { path: 'run.sh', file: fileOf('#!/bin/sh\n') },
  { path: 'empty', file: null },
  { path: 'größe/文件.txt', file: fileOf('text '.repeat(1000)) },
  { path: 'large.bin', file: fileOf(large) }
]

t.test('digests files as the zip of them will be', async t => {
  let doneBytes = 0
  const tree = await treeOfFiles(dropped, { ...options(), onProgress: bytes => void (doneBytes = bytes) })
  t.match(
    tree.find(({ path }) => path === 'run.sh'),
    { mode: 0o100755, size: 10, mtimeMs: Date.UTC(2024, 1, 29, 12, 30, 15) }
  )
  t.equal(tree.find(({ path }) => path === 'large.bin')?.sha256, sha256(Buffer.from(large)).toString('hex'))
  t.equal(
    doneBytes,
    dropped.reduce((sum, { file }) => sum + (file?.size ?? 0), 0)
  )
  const zip = await packZip(dropped)
  t.same(await treeOfZip(zip, await readZip(new File([zip], 'a.zip')), options()), tree)
})

t.test('writes the body that the server reads, with the digests of all entries', async t => {
  const zip = new File(
    [new Uint8Array(await zipOf({ 'b.txt': 'two', 'a/b.txt': 'one', 'a.txt': 'x'.repeat(5000) }))],
    'a.zip'
  )
  const { body, isGzip } = await digestDropped(zip, options())
  t.ok(isGzip)
  t.equal(body.type, 'text/vnd.svc-tree')
  const received = readTree(Buffer.from(await body.arrayBuffer()))
  t.same(
    [...received.entries()].map(({ path, size }) => [path, size]),
    [
      ['a.txt', 5000],
      ['a/b.txt', 3],
      ['b.txt', 3]
    ]
  )
  const [tree, contents] = [createTreeDigest(), createContentsDigest()]
  const entries = await treeOfZip(zip, await readZip(zip), options())
  for (const entry of entries.sort((a, b) => (a.path < b.path ? -1 : 1))) {
    tree.add(entry)
    contents.add(entry)
  }
  t.match(received, { treeSha256: tree.end(), contentsSha256: contents.end() })
  t.equal((await planBody([])).isGzip, true, 'an empty tree is one')
})

t.test('rejects a zip whose entries cannot be read, or have uncertain names', async t => {
  const bytes = await zipOf({ 'a.txt': 'x'.repeat(5000) })
  const zip = new File([new Uint8Array(bytes)], 'a.zip')
  const [entry] = await readZip(zip)
  if (entry === undefined) throw new Error('no entry')
  const says = { name: 'CannotPlan', message: '“a.txt” cannot be read from the zip.' }
  await t.rejects(treeOfZip(zip, [{ ...entry, bytes: 4999 }], options()), says, 'longer than declared')
  await t.rejects(treeOfZip(zip, [{ ...entry, bytes: 5001 }], options()), says, 'shorter than declared')
  await t.rejects(treeOfZip(zip, [{ ...entry, method: 9 }], options()), says, 'another method')
  await t.rejects(treeOfZip(zip, [{ ...entry, offset: entry.offset + 3 }], options()), says, 'damaged')
  const unsure = treeOfZip(zip, [{ ...entry, isNameSure: false }], options())
  await t.rejects(unsure, { name: 'CannotPlan', message: /encoding of its names/ })
})

t.test('stops when it is aborted', async t => {
  const abort = new AbortController()
  abort.abort(new Error('enough'))
  await t.rejects(treeOfFiles(dropped, { signal: abort.signal, onProgress: () => {} }), { message: 'enough' })
})
