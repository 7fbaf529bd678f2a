/* Uploads of what has changed since a kept release, the base, and the whole archives that are made of them. */
import { elapsedOf } from '../base/clock.js'
import { createBaseThread } from '../core/install/assemble.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { isPlaced } from '../core/store/tables/fleet.js'
import { archivedDeployments } from '../core/store/tables/deployments.js'
import type { KeptBase } from '../model/access.js'
import { refuseFullDisk } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Received } from './intake.js'
import type { DeployNeeds } from './needs.js'
import { baseGone, discardArchive } from './packs.js'

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
  uploadedBytes: number
  tookMs: number
}

/** Maximum time in which another hub sends the archive of a base. */
const maxCopyMs = 10 * 60_000

/** Uploads of changes. */
export type Incremental = ReturnType<typeof createIncremental>

/** Creates the part that knows kept releases. */
export function createIncremental(needs: DeployNeeds & { files: DeployFiles }) {
  const { store, files, ids, clock, settings, copies } = needs
  const thread = createBaseThread()
  const pathsOf = (deployId: string) => ({ archive: files.archive(deployId), manifest: files.manifest(deployId) })

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
      return await thread.readTree(pathsOf(deployId))
    },

    /** Makes the whole archive, and removes what was sent. Refuses as `doBaseTask`. */
    async assemble(sent: SentChanges): Promise<Received & { reuse: Reuse }> {
      const { projectId, base, treeSha256, delta, contents, limitBytes, onLength } = sent
      const path = files.upload(ids.token())
      const discard = (): Promise<void> => discardArchive(path)
      const tookMs = elapsedOf(clock)
      try {
        await require(projectId, base)
        const kept = bases(projectId).find(({ id }) => id === base)
        const isShared = sharesContents(projectId)
        onLength?.(2 * contents.bytes + delta.bytes + (isShared ? 0 : (kept?.archiveBytes ?? 0)))
        const { bytes, sha256, storedBytes, ...counts } = await thread.assemble({
          base: pathsOf(base),
          sent: { delta: delta.path, contents: contents.path },
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
    close: (): Promise<void> => thread.close()
  }
}
