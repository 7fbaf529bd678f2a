import { createHash, type Hash } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { join } from 'node:path'
import { createActivity, createDoor } from '../base/async.js'
import { type Clock, instantOf, elapsedOf } from '../base/clock.js'
import { isIdOf, type Ids } from '../base/digests.js'
import { withWriteStream } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { archiveTooLarge } from '../core/archive/names.js'
import type { Store } from '../core/store/database.js'
import { findDeployment, archivedDeployments } from '../core/store/tables/deployments.js'
import { refuseFullDisk } from './failure.js'
import { type DeployFiles, type DeployHome, makeDirectories } from './files.js'
import type { DeployNeeds } from './needs.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { isPlaced } from '../core/store/tables/fleet.js'
import type { KeptBase } from '../model/access.js'
import { baseGone, discardArchive } from './packs.js'

/** Upload counters since the start of the server: uploads in progress, all uploads, and bytes received. */
export interface UploadFigures {
  now: number
  total: number
  bytes: number
}

/** A complete upload in `tmp/`. `deploy` takes ownership of it. */
export interface Received {
  path: string
  bytes: number
  /** SHA-256 of the upload, in hexadecimal. */
  sha256: string
  /** Size of its own files, if it shares contents with a kept archive; absent: `bytes`. */
  storedBytes?: number
  /** Times of the first and the last byte. */
  startedAt: string
  endedAt: string
  /** Removes the file. Does nothing if it no longer exists. */
  discard(): Promise<void>
}

export interface ReceiveOptions {
  limitBytes: number
  /** Called with the number of bytes received so far. If it throws, the upload is refused with that error. */
  onLength?: (bytes: number) => void
  signal: AbortSignal
}

/** Receives uploads and turns them into archives. */
export type Intake = ReturnType<typeof createIntake>

/** Bytes written at once. Limits the memory of one upload. */
const writeBytes = 256 * 1024

/** Creates the intake of a data directory. */
export function createIntake(needs: { home: DeployHome; files: DeployFiles; ids: Ids; clock: Clock }) {
  const { home, files, ids, clock } = needs
  const uploads = createActivity()
  let receivedBytes = 0

  /** Returns options that also count the received bytes. */
  function counting(options: ReceiveOptions): ReceiveOptions {
    let before = 0
    return {
      ...options,
      onLength(length) {
        receivedBytes += length - before
        before = length
        options.onLength?.(length)
      }
    }
  }

  async function receive(bytes: Readable, options: ReceiveOptions): Promise<Received> {
    const { signal } = options
    const startedAt = instantOf(clock)
    const path = files.upload(ids.token())
    const discard = (): Promise<void> => rm(path, { force: true })
    try {
      signal.throwIfAborted()
      await makeDirectories(home)
      const { length, hash } = await store(bytes, path, options)
      return { path, bytes: length, sha256: hash.digest('hex'), startedAt, endedAt: instantOf(clock), discard }
    } catch (error) {
      bytes.destroy()
      await discard()
      throw signal.aborted ? signal.reason : refuseFullDisk(error)
    }
  }

  return {
    uploads: (): UploadFigures => ({ now: uploads.now, total: uploads.total, bytes: receivedBytes }),
    receive: (bytes: Readable, options: ReceiveOptions): Promise<Received> =>
      uploads.during(() => receive(bytes, counting(options))),
    /** Counts an upload while `work` receives it, and the bytes that it reports. */
    during: <T>(work: (received: (bytes: number) => void) => Promise<T>): Promise<T> =>
      uploads.during(() => work(bytes => void (receivedBytes += bytes))),

    /** Keeps the archive at `path` as that of `deployId`. When this resolves, it survives a power cut. */
    async keep(path: string, deployId: string): Promise<void> {
      await makeDirectories(home)
      await files.packs.keep(path, deployId)
    }
  }
}

async function store(
  bytes: Readable,
  path: string,
  { limitBytes, onLength, signal }: ReceiveOptions
): Promise<{ length: number; hash: Hash }> {
  const hash = createHash('sha256')
  let length = 0
  async function* counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      length += chunk.length
      if (length > limitBytes) throw archiveTooLarge(limitBytes)
      onLength?.(length)
      hash.update(chunk)
      yield chunk
    }
  }
  await withWriteStream(path, { flags: 'wx', mode: 0o600, highWaterMark: writeBytes }, out =>
    pipeline(bytes, counted, out, { signal })
  )
  if (length === 0) throw empty()
  return { length, hash }
}

/** Returns the refusal of an upload without contents. */
export function empty(): Refusal {
  return new Refusal('invalid', 'empty_upload', 'The upload is empty: "file" must be a zip archive', { field: 'file' })
}

/*
 * Deployments whose files and records are temporarily inconsistent.
 *
 * Files are created before their record and removed after it. If svc is killed in between, files without a record
 * remain. A start must not remove every such file: after a loss of the database, the archives may be the only copy. So
 * the intent is written first, as `tmp/<random>.pending`: the number of the last durable write of the database, then
 * the ids, one per line. A start removes the files of those ids that have no record, but only if the database contains
 * that write. A new database, or an older copy, proves nothing about these files, and they stay.
 */

/** Pattern of the lists' names in `tmp/`. */
export const pendingPattern = /^[\w-]{43}\.pending$/

/** Lists of deployments whose files are being created or removed. */
export type Pending = ReturnType<typeof createPending>

/** One list of pending deployments. Exactly one of the functions must be called. */
export interface Note {
  /** Deletes the list and keeps the files: their records are durable. Never rejects. */
  settle(): Promise<void>
  /**
   * Removes the files of the listed deployments, or only of `deployIds`, then the list. Call it if they have no
   * records. Never rejects: errors are logged, and the next start tries again.
   */
  removeFiles(deployIds?: readonly string[]): Promise<void>
}

/** Creates the pending lists of this process. */
export function createPending({
  store,
  home,
  ids,
  log,
  files
}: Pick<DeployNeeds, 'store' | 'home' | 'ids' | 'log'> & { files: DeployFiles }) {
  const noted = new Map<string, number>()
  const count = (deployIds: readonly string[], by: 1 | -1): void => {
    for (const id of deployIds) {
      const now = (noted.get(id) ?? 0) + by
      if (now > 0) noted.set(id, now)
      else noted.delete(id)
    }
  }
  return {
    /**
     * Lists deployments before their files are created or their records removed. If the list cannot be written, this
     * rejects if `isRequired`. Otherwise it logs the error and continues: after a kill, files without a record may
     * remain.
     */
    async note(deployIds: readonly string[], { isRequired = false }: { isRequired?: boolean } = {}): Promise<Note> {
      const path = join(home.tmp, `${ids.token()}.pending`)
      count(deployIds, 1)
      try {
        await makeDirectories(home)
        await writeFile(path, [store.sequence(), ...deployIds, ''].join('\n'), { flag: 'wx', mode: 0o600 })
      } catch (error) {
        if (isRequired) {
          count(deployIds, -1)
          await rm(path, { force: true }).catch(() => {})
          throw error
        }
        log(
          'Cannot write the list of pending deployments: if the server is killed now, files without a record remain',
          error
        )
      }
      const end = async (work: () => Promise<unknown>): Promise<void> => {
        try {
          await work()
          await rm(path, { force: true })
        } catch (error) {
          log('Cannot remove files of deployments: the next start tries again', error)
        }
        count(deployIds, -1)
      }
      return {
        settle: () => end(async () => {}),
        removeFiles: (without = deployIds) =>
          end(async () => {
            for (const id of without) await files.remove(id)
          })
      }
    },

    /** Whether this process is creating or removing the files of this deployment. */
    has: (deployId: string): boolean => noted.has(deployId)
  }
}

/**
 * Removes the files without a record that a list of an earlier process names, then the list. Returns the deployments
 * whose files were removed.
 */
export async function settleEarlier(
  path: string,
  { store, files }: { store: Store; files: DeployFiles }
): Promise<string[]> {
  const [sequence, ...lines] = (await readFile(path, 'utf8')).split('\n')
  const isOfThisDatabase = /^\d+$/.test(sequence ?? '') && store.sequence() >= Number(sequence)
  // A last line cut off by a crash is not a valid id.
  const ids = isOfThisDatabase
    ? lines.filter(line => isIdOf('dep_', line) && findDeployment(store, line) === undefined)
    : []
  const removed: string[] = []
  for (const id of ids) if (await files.remove(id)) removed.push(id)
  await rm(path, { force: true })
  return removed
}

/* Uploads of what has changed since a kept release, the base, and the whole archives that are made of them. */

/** An upload of changes. `assemble` takes ownership of both files. */
export interface SentChanges {
  projectId: string
  /** The id of the base. */
  base: string
  /** The SHA-256 of the canonical text of the whole tree. */
  treeSha256: string
  /** The differences of the trees, and the zip of new contents. */
  delta: Received
  contents: Received
  /** The name of the entry of that zip with differences within files (core/archive/patch.ts). */
  patches?: string | undefined
  /** Maximum size of the whole archive in bytes. */
  limitBytes: number
  /** Called with the space that the whole archive needs beside what was sent. Throws if there is none. */
  onLength?: (bytes: number) => void
}

/** What a whole archive was made of. */
export interface Reuse {
  from: string
  treeSha256: string
  /** Number of files and links, and of those whose contents were sent. */
  files: number
  came: number
  /** Of these, those that came as differences. */
  patched: number
  uploadedBytes: number
  tookMs: number
}

/** Maximum time in which another hub sends the archive of a base. */
const maxCopyMs = 10 * 60_000

/** Creates the part that knows kept releases. */
export function createIncremental(needs: DeployNeeds & { files: DeployFiles }) {
  const { store, files, ids, clock, settings, copies } = needs
  const thread = createDoor(async () => (await import('../core/install/assemble.js')).createBaseThread())
  function baseOfRecord(projectId: string, deployId: string) {
    const record = bases(projectId).find(({ id }) => id === deployId)
    const { archiveBytes: bytes, archiveSha256: sha256 } = record ?? { archiveBytes: null, archiveSha256: null }
    return {
      archive: files.archive(deployId),
      manifest: files.manifest(deployId),
      treeSha256: record?.treeSha256 ?? undefined,
      whole: bytes === null || sha256 === null ? undefined : { bytes, sha256 }
    }
  }

  /** Refuses (409 `base_gone`) a base that this project does not keep: another project's digests tell nobody anything. */
  async function require(projectId: string, deployId: string): Promise<void> {
    if (!bases(projectId).some(({ id }) => id === deployId)) {
      throw baseGone(deployId)
    }
    await copies?.ensure(deployId, AbortSignal.timeout(maxCopyMs))
  }

  /** Returns the releases of a project that are kept whole, newest first. A way back keeps only what it changed. */
  function bases(projectId: string) {
    return archivedDeployments(store, projectId).filter(({ exact, treeSha256 }) => !exact && treeSha256 !== null)
  }

  /** Other hubs and nodes keep whole archives, so those are made at once. */
  function sharesContents(projectId: string): boolean {
    return copies === undefined && settings.flag('share_archives') && !isPlaced(store, projectId)
  }

  return {
    /** Returns the kept release with this tree, or else the newest one; null: there is none. */
    baseOf(projectId: string, treeSha256: string | null): KeptBase | null {
      const kept = bases(projectId)
      const found = kept.find(each => each.treeSha256 === treeSha256) ?? kept[0]
      return found === undefined ? null : { deployId: found.id, treeSha256: found.treeSha256 as string }
    },

    /** Returns the tree of a base (core/archive/tree-wire.ts), compressed with gzip. Refuses: 409 `base_gone`. */
    async baseTree(projectId: string, deployId: string): Promise<Uint8Array> {
      await require(projectId, deployId)
      return await (await thread()).readTree(baseOfRecord(projectId, deployId))
    },

    /**
     * Returns the sums of files of a base (core/archive/patch.ts), by the numbers of their lines in its tree. Refuses: 409
     * `base_gone`, 400 `invalid_field`.
     */
    async baseSums(projectId: string, deployId: string, lines: readonly number[]): Promise<Uint8Array> {
      await require(projectId, deployId)
      return await (await thread()).readSums(baseOfRecord(projectId, deployId), lines)
    },

    /** Makes the whole archive, and removes what was sent. Refuses as `doBaseTask`. */
    async assemble(sent: SentChanges): Promise<Received & { reuse: Reuse }> {
      const { projectId, base, treeSha256, delta, contents, patches, limitBytes, onLength } = sent
      const path = files.upload(ids.token())
      const discard = (): Promise<void> => discardArchive(path)
      const tookMs = elapsedOf(clock)
      try {
        await require(projectId, base)
        const kept = bases(projectId).find(({ id }) => id === base)
        const isShared = sharesContents(projectId)
        // What patches make is not known before: as much as there was.
        const copies = (isShared ? 0 : 1) + (patches === undefined ? 0 : 1)
        onLength?.(2 * contents.bytes + delta.bytes + copies * (kept?.archiveBytes ?? 0))
        const { bytes, sha256, storedBytes, ...counts } = await (await thread()).assemble({
          base: baseOfRecord(projectId, base),
          sent: { delta: delta.path, contents: contents.path },
          patches,
          treeSha256,
          to: path,
          sharesWith: isShared ? base : undefined,
          limits: { ...extractionLimits(settings), maxArchiveBytes: limitBytes }
        })
        const { startedAt, endedAt } = contents
        const uploadedBytes = delta.bytes + contents.bytes
        const reuse = { from: base, treeSha256, ...counts, uploadedBytes, tookMs: elapsedOf(clock) - tookMs }
        return { path, bytes, sha256, storedBytes, startedAt, endedAt, discard, reuse }
      } catch (error) {
        await discard()
        throw refuseFullDisk(error)
      } finally {
        await Promise.all([delta.discard(), contents.discard()])
      }
    },

    /** Ends idle threads. */
    close: async (): Promise<void> => (await thread.asked())?.close()
  }
}
