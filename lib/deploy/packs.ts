/*
 * The kept archives of a data directory, which may share contents (core/archive/pack-index.ts).
 *
 * Each index points to bytes that exist, at every moment: an index is written after its packs, and removed before them. A
 * whole archive that others need becomes a pack by a rename, and entries of a pack keep their numbers when others are
 * removed from it. So no index is ever written again. A start removes packs that no index names.
 *
 * Entries that no index names never come back, because a new index only names entries of a kept one. So a pack is made
 * smaller without stopping anybody.
 */
import { namedById } from '../base/digests.js'
import { existsSync, readdirSync } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGate } from '../base/async.js'
import { Refusal } from '../base/errors.js'
import { packedMode } from '../base/shared/tree-text.js'
import { isFileAt, linkOrCopy, OpenFile, syncDirectory, syncPath, throughBeside } from '../base/files.js'
import { type ComposedEntry, composeArchive } from '../core/archive/compose.js'
import { type PackIndex, readIndex, writeIndex, writeTrailer } from '../core/archive/pack-index.js'
import { anyArchive, besideArchive, findKept, openKept, openPack, writeWhole } from '../core/archive/pack-set.js'

/** A pack is made smaller if it wastes both this part of its size and this many bytes. */
const wastedPart = 0.1
const minWastedBytes = 64 * 1024
/** Number of archives of which one goes before the packs that it used are looked at again. */
const removalsBetween = 4

const indexPattern = namedById('dep_', 'index')
const packPattern = namedById('dep_', 'pack')

/** The kept archives of a data directory. */
export class Packs {
  readonly #deployments: string
  readonly #gate = createGate({ places: 1 })
  /** The packs that each index names; null: it cannot be read. Absent until they are needed. */
  #known: Map<string, readonly string[] | null> | null = null
  /** The number of archives that used a pack and were removed since it was looked at. */
  readonly #removals = new Map<string, number>()
  /** Archives that were made whole: what was made from one before may name packs that went with it, or mean another file. */
  readonly #madeWhole = new Set<string>()
  #shrinking: Promise<void> = Promise.resolve()

  constructor(deployments: string) {
    this.#deployments = deployments
  }

  /** Whether the archive of a deployment is kept. */
  has(id: string): boolean {
    return isFileAt(this.#archive(id)) || isFileAt(this.#indexOf(id))
  }

  /**
   * Keeps the archive at `path`, an upload or the archive of another deployment, as that of `id`. When this resolves, it
   * survives a power cut. Rejects with ENOENT if there is none. Refuses 409 `base_gone`.
   */
  async keep(path: string, id: string): Promise<void> {
    const found = await findKept(path)
    if (found === null || !found.isShared) {
      await linkOrCopy(path, this.#archive(id))
      await syncPath(this.#archive(id))
    } else await this.#alone(() => this.#keepIndex(path, id))
    await syncPath(this.#deployments)
  }

  /** Removes the archive of a deployment, except what others need of it. Returns the bytes freed. */
  remove(id: string): Promise<{ wasThere: boolean; freedBytes: number }> {
    return this.#alone(() => this.#removeNow(id))
  }

  /** Whether another archive needs a file of this deployment. */
  isNeeded(id: string): Promise<boolean> {
    return this.#alone(() => this.#isNeededNow(id))
  }

  /** Removes the packs that no index names, which a killed server left. Returns their paths. */
  removeLeft(): Promise<string[]> {
    return this.#alone(async () => {
      const removed: string[] = []
      for (const pack of this.#names(packPattern)) {
        if (await this.#isNeededNow(pack)) continue
        await removeFreed(this.#packOf(pack))
        removed.push(this.#packOf(pack))
      }
      return removed
    })
  }

  /** Makes packs smaller whose entries are no longer needed. `onFreed` gets the bytes. Never rejects. */
  shrinkLater(onFreed: (bytes: number) => void, log: (sentence: string, error: unknown) => void): void {
    const due = [...this.#removals].filter(([, count]) => count >= removalsBetween).map(([pack]) => pack)
    for (const pack of due) {
      this.#removals.delete(pack)
      this.#shrinking = this.#shrinking
        .then(() => this.#shrink(pack))
        .then(bytes => bytes > 0 && onFreed(bytes))
        .then(undefined, error => log(`Cannot make the pack "${pack}" smaller`, error))
    }
  }

  /** Resolves when no pack is being written. */
  idle(): Promise<void> {
    return this.#shrinking
  }

  /** Makes a whole archive of one that shares contents, in its place. */
  async makeWhole(id: string): Promise<void> {
    await this.#alone(async () => {
      if (existsSync(this.#archive(id)) || !existsSync(this.#indexOf(id))) return
      this.#madeWhole.add(id)
      await throughBeside(this.#archive(id), async beside => {
        await writeWhole(this.#archive(id), beside)
        await syncPath(beside)
      })
      const packs = (await this.#readUses()).get(id) ?? []
      await removeFreed(this.#indexOf(id))
      this.#known?.delete(id)
      await this.#removeUnneeded(packs)
      await syncDirectory(this.#deployments)
    })
  }

  #archive(id: string): string {
    return join(this.#deployments, `${id}.zip`)
  }

  #indexOf(id: string): string {
    return besideArchive(this.#archive(id), 'index')
  }

  #packOf(id: string): string {
    return besideArchive(this.#archive(id), 'pack')
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.#gate.enter(new AbortController().signal)
    try {
      return await work()
    } finally {
      leave()
    }
  }

  async #readUses(): Promise<Map<string, readonly string[] | null>> {
    if (this.#known !== null) return this.#known
    const found = new Map<string, readonly string[] | null>()
    for (const name of this.#names(indexPattern)) {
      found.set(name, (await this.#readIndexOf(name))?.packs ?? null)
      await nextTurn()
    }
    this.#known = found
    return found
  }

  async #readIndexOf(id: string): Promise<PackIndex | null> {
    try {
      return readIndex(await readFile(this.#indexOf(id)), basename(this.#indexOf(id)))
    } catch {
      return null
    }
  }

  #names(pattern: RegExp): string[] {
    try {
      return readdirSync(this.#deployments).flatMap(name => pattern.exec(name)?.[1] ?? [])
    } catch {
      return []
    }
  }

  /** Whether an index names a pack. One that cannot be read may name any. */
  async #isNeededNow(pack: string): Promise<boolean> {
    for (const packs of (await this.#readUses()).values()) if (packs === null || packs.includes(pack)) return true
    return false
  }

  /** Removes packs that no index names, and returns the bytes freed. */
  async #removeUnneeded(packs: Iterable<string>): Promise<number> {
    let freed = 0
    for (const pack of packs)
      if (existsSync(this.#packOf(pack)) && !(await this.#isNeededNow(pack)))
        freed += await removeFreed(this.#packOf(pack))
    return freed
  }

  async #removeNow(id: string): Promise<{ wasThere: boolean; freedBytes: number }> {
    const uses = await this.#readUses()
    const found = await findKept(this.#archive(id))
    let freedBytes = await removeFreed(this.#indexOf(id))
    const packs = uses.get(id) ?? []
    uses.delete(id)
    if (existsSync(this.#archive(id))) {
      if (!existsSync(this.#packOf(id)) && (await this.#isNeededNow(id)))
        await rename(this.#archive(id), this.#packOf(id))
      else freedBytes += await removeFreed(this.#archive(id))
    }
    const touched = new Set([...packs, id])
    if (found !== null || existsSync(this.#packOf(id))) freedBytes += await this.#removeUnneeded(touched)
    for (const pack of touched) this.#removals.set(pack, (this.#removals.get(pack) ?? 0) + 1)
    return { wasThere: found !== null, freedBytes }
  }

  /** Keeps an index. Its packs are there if it is a kept one, or if the base of an upload still is. */
  async #keepIndex(path: string, id: string): Promise<void> {
    const index = readIndex(await readFile(besideArchive(path, 'index')), basename(path))
    const uses = await this.#readUses()
    const isUpload = dirname(path) !== this.#deployments
    if (isUpload && (await findKept(this.#archive(index.base))) === null) throw baseGone(index.base)
    const isOlder = isUpload && [index.base, ...index.packs].some(name => this.#madeWhole.has(name))
    if (isOlder && !(await isReadable(path))) throw baseGone(index.base)
    if (index.packs.includes('')) {
      await linkOrCopy(besideArchive(path, 'pack'), this.#packOf(id))
      await syncPath(this.#packOf(id))
    }
    const packs = index.packs.map(name => (name === '' ? id : name))
    await throughBeside(this.#indexOf(id), async beside => {
      await writeFile(beside, writeIndex({ ...index, packs }), { mode: 0o600 })
      await syncPath(beside)
    })
    uses.set(id, packs)
  }

  /** Writes a pack again without the entries that no index names. */
  async #shrink(pack: string): Promise<number> {
    if (!existsSync(this.#packOf(pack)) || existsSync(this.#archive(pack)) || existsSync(this.#indexOf(pack))) return 0
    const users = Array.from(await this.#readUses(), ([id, packs]) => (packs?.includes(pack) === true ? id : []))
    const numbers = new Set<number>()
    for (const id of users.flat()) {
      const index = await this.#readIndexOf(id)
      // The next removal looks again.
      if (index === null) return 0
      for (const number of numbersOf(index, pack)) numbers.add(number)
      await nextTurn()
    }
    const file = new OpenFile(this.#packOf(pack))
    try {
      const { size } = file
      const { entries, numberAt } = await openPack(file, pack)
      const left = entries.flatMap((entry, at) => (numbers.has(numberAt(at)) ? [{ entry, number: numberAt(at) }] : []))
      const wasted = entries.reduce((sum, { headerOffset, limitOffset }, at) => {
        return numbers.has(numberAt(at)) ? sum : sum + limitOffset - headerOffset
      }, 0)
      if (wasted < minWastedBytes || wasted < size * wastedPart) return 0
      const source = this.#packOf(pack)
      const composed = left.map(({ entry }): ComposedEntry => {
        return { path: entry.path, mode: packedMode(entry), mtimeMs: entry.mtimeMs ?? 0, source }
      })
      const trailer = writeTrailer(left.map(({ number }) => number))
      const place = (from: string, to: string): Promise<void> =>
        this.#alone(() => (existsSync(to) ? rename(from, to) : rm(from)))
      const { bytes } = await composeArchive(source, composed, { trailer, place })
      await syncDirectory(this.#deployments)
      return Math.max(0, size - bytes)
    } finally {
      file.close()
    }
  }
}

/** Whether an archive is that of the packs that are there. */
async function isReadable(path: string): Promise<boolean> {
  try {
    ;(await openKept(path, anyArchive)).close()
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

/** Removes the files of an archive that is not kept. */
export async function discardArchive(path: string): Promise<void> {
  for (const each of [path, besideArchive(path, 'index'), besideArchive(path, 'pack')]) await rm(each, { force: true })
}

/** Returns the numbers of the entries of a pack that an index names. */
function* numbersOf({ packs, runs }: PackIndex, pack: string): Generator<number> {
  for (let at = 0; at < runs.length; at += 3) {
    const [number, first, count] = runs.slice(at, at + 3) as [number, number, number]
    if (packs[number] !== pack) continue
    for (let n = 0; n < count; n++) yield first + n
  }
}

/** Removes a file and returns the bytes freed: 0 if it has another name, or is missing. */
async function removeFreed(path: string): Promise<number> {
  const stats = await stat(path).catch(() => null)
  await rm(path, { force: true })
  return stats?.nlink === 1 ? stats.size : 0
}

/** Returns the refusal of changes of a release that is not kept any more. */
export function baseGone(deployId: string): Refusal {
  const sentence = `Release ${deployId} is not kept any more. Send the whole archive`
  return new Refusal('conflict', 'base_gone', sentence, { field: 'base' })
}
