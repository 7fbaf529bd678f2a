import t from 'tap'
import { readTree } from '../../../lib/archive/tree-wire.js'
import { CannotPlan, treeOfFiles, treeOfZip } from '../../../www/archive/tree.js'
import { packZip, type PackEntry } from '../../../www/archive/zip.js'
import { sha256 } from '../../../lib/base/sha256.js'
import { makeZip } from '../../support/make-zip.js'

/** The tree as the server reads it. */
async function openTree(body: Blob) {
  const { treeSha256, entries } = readTree(Buffer.from(await body.arrayBuffer()))
  return { treeSha256, entries: [...entries()] }
}

const options = { signal: new AbortController().signal, onProgress: () => {} }
const file = (path: string, text: string): PackEntry => ({
  path,
  file: Object.assign(new Blob([text]), { lastModified: 1_700_000_000_999 })
})
const contents = { 'b/run.sh': '#!/bin/sh', a: '', 'größe/文件.txt': 'x'.repeat(5000), 'b-c': 'c' }
const entries = [...Object.entries(contents).map(([path, text]) => file(path, text)), { path: 'empty', file: null }]

t.test('the tree of files and that of their zip are what the server reads', async t => {
  const zip = new File([await packZip(entries)], 'a.zip')
  let readBytes = 0
  const counted = { ...options, onProgress: (bytes: number) => void (readBytes += bytes) }
  const [ofFiles, ofZip] = [await treeOfFiles(entries, counted), await treeOfZip(zip, options)]
  t.equal(readBytes, 5010)
  t.equal(ofFiles.type, 'text/vnd.svc-tree')
  const [files, zipped] = [await openTree(ofFiles), await openTree(ofZip)]
  t.equal(files.treeSha256, zipped.treeSha256)
  t.strictSame(
    files.entries.map(({ path, mode }) => [path, mode]),
    [
      ['a', 0o100644],
      ['b-c', 0o100644],
      ['b/run.sh', 0o100755],
      ['größe/文件.txt', 0o100644]
    ]
  )
  for (const { path, sha256: digest, size, mtimeMs } of files.entries) {
    const text = contents[path as keyof typeof contents]
    t.equal(digest, sha256(Buffer.from(text)).toString('hex'))
    t.strictSame([size, mtimeMs], [Buffer.byteLength(text), 1_700_000_000_000])
  }
})

t.test('reads links, and permissions that a zip has', async t => {
  const bytes = makeZip([
    { name: './link', data: 'a', mode: 0o120777 },
    { name: 'a', data: 'deflated '.repeat(50), method: 8, mode: 0o100600 },
    { name: 'plain', data: 'x' }
  ])
  const { entries } = await openTree(await treeOfZip(new File([new Uint8Array(bytes)], 'a.zip'), options))
  t.strictSame(
    entries.map(({ path, mode, size }) => [path, mode, size]),
    [
      ['a', 0o100600, 450],
      ['link', 0o120777, 1],
      ['plain', 0o100644, 1]
    ]
  )
})

t.test('says why there is no tree', async t => {
  const huge = { path: 'huge', file: Object.assign(new Blob([]), { lastModified: 0 }) }
  Object.defineProperty(huge.file, 'size', { value: 2 ** 30 })
  await t.rejects(treeOfFiles([huge], options), CannotPlan)
  const broken = makeZip([{ name: 'a', data: 'x', localSignature: 0 }])
  await t.rejects(treeOfZip(new File([new Uint8Array(broken)], 'a.zip'), options), /is not a zip archive/)
  const aborted = { ...options, signal: AbortSignal.abort(new Error('left')) }
  await t.rejects(treeOfFiles(entries, aborted), { message: 'left' })
})
