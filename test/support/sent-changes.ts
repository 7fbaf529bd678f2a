/* What a client sends of a release whose base the server keeps: the differences of the trees, and a zip of new contents. */
import { gzipSync } from 'node:zlib'
import { sha256 } from '../../lib/base/digests.js'
import { compareWithBase, writeDelta } from '../../lib/base/shared/tree-delta.js'
import { compareTreePaths, linkMode, linkType } from '../../lib/base/shared/tree-text.js'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { createTreeDigest } from '../../lib/model/manifest.js'
import { type EntryPlan, makeZip } from './make-zip.js'

/** An entry of the whole archive. The name of a directory ends with "/". */
export interface SentEntry extends EntryPlan {
  name: string
  data: string
  /** With the type of the entry. */
  mode: number
  /** The time that `extra` or `dosTime` says. */
  mtimeMs: number
}

/** The parts of an upload of changes. */
export interface SentChanges {
  treeSha256: string
  delta: Buffer
  contents: Buffer
  /** The paths that stay as the base has them, also in their times. */
  same: ReadonlySet<string>
}

/** Returns what is sent of the entries of a release. `base` is the tree of the base, as the server answers it. */
export function changesOf(entries: readonly SentEntry[], base: Uint8Array): SentChanges {
  const tree = entries
    .filter(({ name }) => !name.endsWith('/'))
    .sort((a, b) => compareTreePaths(a.name, b.name))
    .map(({ name, data, mode, mtimeMs }) => ({
      path: name,
      mode: (mode & linkType) === linkType ? linkMode : mode,
      size: Buffer.byteLength(data),
      sha256: sha256(Buffer.from(data)).toString('hex'),
      mtimeMs
    }))
  const digest = createTreeDigest()
  for (const entry of tree) digest.add(entry)
  const treeSha256 = digest.end()
  const known = new Map(Array.from(readTree(base).entries(), entry => [entry.path, entry]))
  const delta = compareWithBase(known, { entries: tree })
  const missing = new Set(delta.missing.map(({ path }) => path))
  const changed = new Set(delta.changed.map(({ path }) => path))
  return {
    treeSha256,
    delta: gzipSync(writeDelta(delta, treeSha256)),
    contents: makeZip(entries.filter(({ name }) => name.endsWith('/') || missing.has(name))),
    same: new Set(tree.flatMap(({ path }) => (changed.has(path) ? [] : [path])))
  }
}
