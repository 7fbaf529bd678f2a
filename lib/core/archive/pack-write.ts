/*
 * Writes an archive that shares contents with its base: a pack of the entries that the base does not have, and the index
 * of all (pack-index.ts). The packed bytes of the base are read for the SHA-256 of the whole zip, and not copied.
 */
import { createHash } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { OpenFile } from '../../base/files.js'
import { type Composed, composeArchive, type ComposedEntry } from './compose.js'
import { refuse } from './names.js'
import { type PackIndex, writeIndex } from './pack-index.js'
import { besideArchive, createPackSet, modeOfPacked, openPack, piecesOf, secondsOf } from './pack-set.js'
import type { Archive, ArchiveEntry, Pack } from './read.js'

/** The archive that entries are shared with. */
export interface SharedBase {
  archive: Archive
  /** Its path, which names it as the source of entries. */
  path: string
  deployId: string
}

/** An archive that shares contents. */
export interface Shared extends Composed {
  /** Size of its own files in bytes. */
  storedBytes: number
}

/** An archive of more packs than these gets the entries of all but the largest ones into its own. */
const maxPacks = 24
const packsLeft = 12

/** Writes `<to>.index` and `<to>.pack`, which is synced, in place of `<to>.zip`. Refuses like `composeArchive`. */
export async function shareArchive(to: string, entries: readonly ComposedEntry[], base: SharedBase): Promise<Shared> {
  const [packPath, indexPath] = [besideArchive(to, 'pack'), besideArchive(to, 'index')]
  const { placed, own } = placesOf(entries, base)
  let ownFile: OpenFile | null = null
  try {
    const packs = [...packsOf(base)]
    if (own.length > 0) {
      await composeArchive(packPath, own)
      ownFile = new OpenFile(packPath)
      const pack = await openPack(ownFile, '')
      const found = new Map(pack.entries.map(({ path }, at) => [path, at]))
      for (const entry of own) placed.push({ entry, pack: packs.length, ordinal: found.get(entry.path) as number })
      packs.push(pack)
    }
    const { used, ...drafted } = draftOf(placed, packs)
    const set = createPackSet(drafted, used, { name: '' })
    const hash = createHash('sha256')
    for await (const piece of piecesOf(set.archive.file)) hash.update(piece)
    const bytes = set.archive.fileSize
    const names = used.map(({ name }) => name)
    const index = { base: base.deployId, packs: names, ...drafted, bytes, directorySha256: await set.directorySha256() }
    const text = writeIndex(index)
    await writeFile(indexPath, text, { mode: 0o600 })
    return { bytes, sha256: hash.digest('hex'), storedBytes: text.length + (ownFile?.size ?? 0) }
  } catch (error) {
    for (const path of [packPath, indexPath]) await rm(path, { force: true }).catch(() => {})
    throw error
  } finally {
    ownFile?.close()
  }
}

/** Returns the packs of a base; a whole archive is one. */
function packsOf({ archive, deployId: name }: SharedBase): readonly Pack[] {
  if (archive.packs !== undefined) return archive.packs.packs
  const { file, entries } = archive
  return [{ name, file, entries, entryOf: at => entries[at], numberAt: at => at }]
}

interface Placed {
  entry: ComposedEntry
  pack: number
  ordinal: number
}

/** Finds out which entries are shared, and which the pack of the archive must contain. */
function placesOf(
  entries: readonly ComposedEntry[],
  { archive, path: basePath }: SharedBase
): { placed: Placed[]; own: ComposedEntry[] } {
  const positions = new Map(archive.entries.map(({ path }, at) => [path, at]))
  const bytesOf = new Map<number, number>()
  const own: ComposedEntry[] = []
  const placed: Placed[] = []
  for (const entry of entries) {
    if (entry.source !== basePath) {
      own.push(entry)
      continue
    }
    const at = positions.get(entry.sourcePath ?? entry.path)
    if (at === undefined) throw refuse('damaged_archive', entry.path, 'the archive does not contain it')
    const { pack, ordinal } = archive.packs?.placeOf(at) ?? { pack: 0, ordinal: at }
    placed.push({ entry, pack, ordinal })
    bytesOf.set(pack, (bytesOf.get(pack) ?? 0) + (archive.entries[at] as ArchiveEntry).compressedSize)
  }
  if (bytesOf.size <= maxPacks) return { placed, own }
  const largest = [...bytesOf].sort(([, a], [, b]) => b - a).slice(0, packsLeft)
  const left = new Set(largest.map(([pack]) => pack))
  return {
    placed: placed.filter(({ pack }) => left.has(pack)),
    own: [...own, ...placed.filter(({ pack }) => !left.has(pack)).map(({ entry }) => entry)]
  }
}

type Draft = Pick<PackIndex, 'runs' | 'paths' | 'modes' | 'times'> & { used: Pack[] }

/** Returns the entries in the order of the packs and of their bytes, so that neighbours are one run. */
function draftOf(placed: readonly Placed[], packs: readonly Pack[]): Draft {
  const sorted = [...placed].sort((a, b) => a.pack - b.pack || a.ordinal - b.ordinal)
  const used: Pack[] = []
  const numberOf = new Map<number, number>()
  const [runs, times]: [number[], number[]] = [[], []]
  const [paths, modes]: [PackIndex['paths'], PackIndex['modes']] = [[], []]
  let [lastPosition, lastSeconds] = [0, 0]
  for (const [position, { entry, pack, ordinal }] of sorted.entries()) {
    const from = packs[pack] as Pack
    let number = numberOf.get(pack)
    if (number === undefined) {
      number = used.push(from) - 1
      numberOf.set(pack, number)
    }
    const at = runs.length - 3
    const isNext = at >= 0 && runs[at] === number && (runs[at + 1] as number) + (runs[at + 2] as number) === ordinal
    if (isNext) (runs[at + 2] as number)++
    else runs.push(number, ordinal, 1)
    const packed = from.entryOf(ordinal) as ArchiveEntry
    if (packed.path !== entry.path) paths.push([position, entry.path])
    if (modeOfPacked(packed) !== entry.mode) modes.push([position, entry.mode])
    const seconds = secondsOf(entry.mtimeMs)
    if (secondsOf(packed.mtimeMs) === seconds) continue
    times.push(position - lastPosition, seconds - lastSeconds)
    lastPosition = position
    lastSeconds = seconds
  }
  return { used, runs, paths, modes, times }
}
