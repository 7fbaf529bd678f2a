import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { anyArchive, besideArchive, openKept } from '../../lib/core/archive/pack-set.js'
import { createEntryReader } from '../../lib/core/archive/entry-data.js'
import { linkOrCopy, replaceFile } from '../../lib/base/files.js'
import { readIndex, writeIndex } from '../../lib/core/archive/pack-index.js'
import { shareArchive } from '../../lib/core/install/assemble.js'
import { writeZipOf } from './zips.js'

const fileMode = 0o100644
const letters = 'abcdefghijklmnopqrstuvwxyz'

/** A directory of archives: the first is whole, each other one shares contents with the one before. */
export async function sharedArchives(t: Test) {
  const top = t.testdir({ deployments: {}, tmp: {} })
  const pathOf = (id: string): string => join(top, 'deployments', `${id}.zip`)
  const idOf = (number: number): string =>
    `dep_${number
      .toString(26)
      .replace(/./g, digit => letters[Number.parseInt(digit, 26)] as string)
      .padStart(16, 'a')}`
  let count = 0

  return {
    top,
    pathOf,
    idOf,
    /** Adds an archive of these files. Those with other contents than before are its own. */
    async add(files: Record<string, string>, mtimeMs = 1_700_000_000_000) {
      const id = idOf(count++)
      if (count === 1) {
        await writeZipOf(pathOf(id), files)
        return { id, bytes: 0, sha256: '', storedBytes: 0 }
      }
      const base = idOf(count - 2)
      const before = await contentsOf(pathOf(base))
      const changed = Object.entries(files).filter(([path, text]) => before[path] !== text)
      const contents = join(top, 'tmp', 'contents.zip')
      await writeZipOf(contents, Object.fromEntries(changed))
      const archive = await openKept(pathOf(base), anyArchive)
      try {
        const isChanged = new Set(changed.map(([path]) => path))
        const entries = Object.keys(files).map(path => {
          return { path, mode: fileMode, mtimeMs, source: isChanged.has(path) ? contents : pathOf(base) }
        })
        const upload = join(top, 'tmp', 'upload.zip')
        const shared = await shareArchive(upload, entries, { archive, path: pathOf(base), deployId: base })
        const index = readIndex(readFileSync(besideArchive(upload, 'index')), id)
        if (index.packs.includes('')) await linkOrCopy(besideArchive(upload, 'pack'), besideArchive(pathOf(id), 'pack'))
        const packs = index.packs.map(name => (name === '' ? id : name))
        await mkdir(join(top, 'deployments'), { recursive: true })
        const bytes = writeIndex({ ...index, packs })
        await replaceFile(besideArchive(pathOf(id), 'index'), bytes as unknown as string, 0o600)
        for (const ending of ['index', 'pack'] as const) rmSync(besideArchive(upload, ending), { force: true })
        return { id, ...shared }
      } finally {
        archive.close()
      }
    }
  }
}

/** Returns the files of a kept archive. */
export async function contentsOf(path: string): Promise<Record<string, string>> {
  const archive = await openKept(path, anyArchive)
  try {
    const reader = createEntryReader(archive)
    const found: Record<string, string> = {}
    for (const entry of archive.entries) {
      const pieces: Buffer[] = []
      await reader.read(entry, piece => void pieces.push(Buffer.from(piece)))
      if (entry.kind === 'file') found[entry.path] = Buffer.concat(pieces).toString()
    }
    return found
  } finally {
    archive.close()
  }
}

/** Flips a bit of the contents of an entry, and returns the function that puts it back. */
export async function spoil(path: string, name: string): Promise<() => void> {
  const archive = await openKept(path, anyArchive)
  const entry = archive.entries.find(each => each.path === name)
  archive.close()
  const saved = readFileSync(path)
  const bytes = Buffer.from(saved)
  const at = (entry?.limitOffset ?? 0) - 20
  bytes.writeUInt8((bytes[at] as number) ^ 4, at)
  writeFileSync(path, bytes)
  return () => writeFileSync(path, saved)
}
