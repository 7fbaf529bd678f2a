import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sha256 } from '../../lib/base/digests.js'
import { directoryMode, noContents, writeOwnedTree } from '../../lib/core/install/owned-tree.js'
import type { Ownership } from '../../lib/core/install/ownership.js'
import type { OwnedEntry } from '../../lib/model/manifest.js'
import { compareTreePaths } from '../../lib/base/shared/tree-text.js'

/** Returns the contents of an owned tree: contents by path; a path that ends with `/` is a directory. */
export async function ownedTree(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-tree-'))
  try {
    const path = join(directory, 'tree')
    await writeOwnedTree(path, { deployId: 'dep_1', sequence: 1, target: '/srv' }, entriesOf(files))
    return readFileSync(path)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

async function* entriesOf(files: Readonly<Record<string, string>>): AsyncGenerator<OwnedEntry> {
  const named = Object.entries(files).map(([path, contents]) => ({
    path: path.replace(/\/$/, ''),
    given: path,
    contents
  }))
  for (const { path, given, contents } of named.sort((a, b) => compareTreePaths(a.path, b.path))) {
    const common = { path, size: contents.length, mtimeMs: 0, ino: 1, since: 'dep_1' }
    yield given.endsWith('/')
      ? { ...common, mode: directoryMode, sha256: noContents }
      : { ...common, mode: 0o100644, sha256: sha256(Buffer.from(contents)).toString('hex') }
  }
}

/** Returns what an extraction is told that removes those of these files that its archive does not contain. */
export async function pruningOf(files: Readonly<Record<string, string>>): Promise<Ownership> {
  return {
    tree: await ownedTree(files),
    edited: 'warn',
    removes: { kind: 'absent', protect: [], isForced: true },
    exact: null,
    archives: ['dep_1'],
    before: { maxBytes: 1e9, isRequired: true }
  }
}
