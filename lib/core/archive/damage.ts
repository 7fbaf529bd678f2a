/*
 * Reads every kept archive (`svc verify --archives`, and the server in the background: deploy/archive-check.ts). A file is
 * read once, however many archives share it, and what is damaged in it is told with each release that it affects. Archives
 * that are removed meanwhile are left out.
 */
import { namedById } from '../../base/digests.js'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, reasonOf } from '../../base/errors.js'
import { OpenFile } from '../../base/files.js'
import { countOf, oneLine } from '../../base/text.js'
import { createEntryReader } from './entry-data.js'
import { type PackIndex, readIndex } from './pack-index.js'
import { anyArchive, openKept, openPack } from './pack-set.js'

/** What is wrong with one file, and the releases that it affects. */
export interface ArchiveDamage {
  /** The deployment that the file is named after. */
  deployId: string
  /** A sentence that names the file and the releases. */
  message: string
  /** The deployments whose archives are damaged by it. */
  releases: string[]
}

/** The result of reading all archives. */
export interface DamageReport {
  /** Number of kept archives. */
  archives: number
  damages: ArchiveDamage[]
}

const filePattern = namedById('dep_', 'zip|pack')
const keptPattern = namedById('dep_', 'zip|index')
const indexPattern = namedById('dep_', 'index')

/** The damage of one file: by the number of the entry, or of all. */
interface Damage {
  name: string
  deployId: string
  isPack: boolean
  /** What is wrong with the whole file; null: with single entries. */
  whole: string | null
  entries: Map<number, string>
}

/** A task for a thread (damage-worker.ts). */
export interface DamageTask {
  deployments: string
  /** Its number is 1 while the thread must not read. */
  isPaused: Int32Array
}

/** Reads the archives of a directory. Calls `pace` for each piece of an entry: a thread may wait there. */
export async function findDamage(deployments: string, pace: () => void = () => {}): Promise<DamageReport> {
  const names = await readdir(deployments).catch((): string[] => [])
  const damages: Damage[] = []
  for (const name of names) {
    const [, deployId, ending] = filePattern.exec(name) ?? []
    if (deployId === undefined) continue
    const damage = await readFileOf(deployments, { name, deployId, isPack: ending === 'pack' }, pace)
    if (damage !== null) damages.push(damage)
  }
  const affected = new Map<Damage, string[]>()
  for (const damage of damages) affected.set(damage, damage.isPack ? [] : [damage.deployId])
  const found: ArchiveDamage[] = []
  for (const name of names) {
    const [, deployId] = indexPattern.exec(name) ?? []
    if (deployId !== undefined && !names.includes(`${deployId}.zip`))
      found.push(...(await readIndexOf(deployments, { name, deployId, names, affected })))
  }
  for (const [damage, ids] of affected) if (ids.length > 0) found.push(told(damage, ids))
  const kept = new Set(names.flatMap(name => keptPattern.exec(name)?.[1] ?? []))
  return { archives: kept.size, damages: found }
}

/** Reads all entries of a zip or a pack. Returns null if nothing is wrong, or if it is gone. */
async function readFileOf(
  directory: string,
  { name, deployId, isPack }: Pick<Damage, 'name' | 'deployId' | 'isPack'>,
  pace: () => void
): Promise<Damage | null> {
  const entries = new Map<number, string>()
  const damage = (whole: string | null): Damage => ({ name, deployId, isPack, whole, entries })
  let file: OpenFile | null = null
  try {
    file = new OpenFile(join(directory, name))
    const pack = await openPack(file, deployId)
    const reader = createEntryReader({ file, fileSize: file.size })
    for (const [at, entry] of pack.entries.entries()) {
      await reader.read(entry, pace).catch(error => entries.set(pack.numberAt(at), reasonOf(error)))
    }
  } catch (error) {
    return hasCode(error, 'ENOENT') ? null : damage(reasonOf(error))
  } finally {
    file?.close()
  }
  return entries.size === 0 ? null : damage(null)
}

interface Reading {
  name: string
  deployId: string
  names: readonly string[]
  affected: Map<Damage, string[]>
}

/** Adds a release to the damages that affect it. Returns what is wrong with its index, or with packs that are missing. */
async function readIndexOf(directory: string, { name, deployId, names, affected }: Reading): Promise<ArchiveDamage[]> {
  let index: PackIndex
  try {
    index = readIndex(await readFile(join(directory, name)), name)
  } catch (error) {
    return hasCode(error, 'ENOENT') ? [] : [ofRelease(deployId, reasonOf(error))]
  }
  let isExplained = false
  for (const [damage, ids] of affected) {
    const fileOf = (pack: string): string => (names.includes(`${pack}.pack`) ? `${pack}.pack` : `${pack}.zip`)
    const uses = index.packs.findIndex(pack => fileOf(pack) === damage.name)
    if (uses === -1 || !(damage.whole !== null || hasDamaged(index, uses, damage))) continue
    ids.push(deployId)
    isExplained = true
  }
  if (isExplained) return []
  try {
    const archive = await openKept(join(directory, `${deployId}.zip`), anyArchive)
    archive.close()
    return []
  } catch (error) {
    return hasCode(error, 'ENOENT') ? [] : [ofRelease(deployId, reasonOf(error))]
  }
}

function hasDamaged({ runs }: PackIndex, pack: number, { entries }: Damage): boolean {
  for (let at = 0; at < runs.length; at += 3) {
    const [first, count] = [runs[at + 1] as number, runs[at + 2] as number]
    if (runs[at] === pack)
      for (const number of entries.keys()) if (number >= first && number < first + count) return true
  }
  return false
}

function ofRelease(deployId: string, why: string): ArchiveDamage {
  return { deployId, message: oneLine(`The archive of ${deployId} is damaged: ${why}`), releases: [deployId] }
}

function told({ name, whole, entries, deployId }: Damage, releases: string[]): ArchiveDamage {
  const [first] = entries.values()
  const more = entries.size > 1 ? ` (and ${countOf(entries.size - 1, 'other entry', 'other entries')})` : ''
  const message = `"${name}" is damaged: ${whole ?? `${first}${more}`}. Affected releases: ${releases.join(', ')}`
  return { deployId, message: oneLine(message), releases }
}
