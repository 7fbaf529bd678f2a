/*
 * Decides which extractions are small: they take some milliseconds, less than a thread takes to start. Their sizes are
 * known before anything begins, from the directory of the archive, the target, and the tree of owned files. The target
 * must be on a local file system: a call to another may take forever, and would stop the whole server.
 */
import { lstat, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { openArchive, type Archive } from '../../archive/read.js'
import { abreast } from '../abreast.js'
import { isLocalTree, listMounts } from '../mounts.js'
import { readOwnedEntries } from '../owned-tree.js'
import type { Job } from './extract-threads.js'

/** The largest extraction that is small. */
export interface SmallLimits {
  /** Size of the archive. */
  archiveBytes: number
  /** Uncompressed size of its files. */
  bytes: number
  entries: number
  /** Size of the files of the target that are read: those that are replaced or removed. */
  existingBytes: number
  /** Size of the tree of the files that svc owns. */
  treeBytes: number
}

/** The event loop never waits for 100 ms of processor time at once (test/install/unpack/small-jobs.test.ts). */
export const defaultSmall: SmallLimits = {
  archiveBytes: 1024 * 1024,
  bytes: 4 * 1024 * 1024,
  entries: 256,
  existingBytes: 1024 * 1024,
  treeBytes: 128 * 1024
}

/** Whether an extraction is small. If that cannot be found out, it is not. */
export async function isSmallExtraction(
  job: Extract<Job, { kind: 'extract' }>,
  limits: SmallLimits = defaultSmall
): Promise<boolean> {
  const { archivePath, journalPath, extraction } = job
  const tree = extraction.ownership?.tree ?? null
  if (tree !== null && tree.length > limits.treeBytes) return false
  let archive: Archive | null = null
  try {
    const mounts = await listMounts()
    if (mounts.length === 0 || (await stat(archivePath)).size > limits.archiveBytes) return false
    const real = extraction.real ?? (await realpath(extraction.target))
    const home = await realpath(dirname(journalPath))
    if (!isLocalTree(mounts, real) || !isLocalTree(mounts, home)) return false
    archive = await openArchive(archivePath, {
      ...extraction.limits,
      maxEntries: Math.min(limits.entries, extraction.limits.maxEntries),
      maxExtractedBytes: Math.min(limits.bytes, extraction.limits.maxExtractedBytes)
    })
    const paths = new Set(archive.entries.map(({ path }) => path))
    // An edited file may be larger than the tree says.
    if (tree !== null && extraction.ownership?.removes) {
      for await (const { path } of readOwnedEntries(tree)) paths.add(path)
    }
    return (await bytesOf(real, paths)) <= limits.existingBytes
  } catch {
    // A thread finds out what is wrong.
    return false
  } finally {
    archive?.close()
  }
}

/** Whether marking is small: its target is local, and the tree is. */
export async function isSmallMark(
  { mark: { target, owned } }: Extract<Job, { kind: 'mark' }>,
  limits: SmallLimits = defaultSmall
): Promise<boolean> {
  try {
    const size = typeof owned === 'string' ? (await stat(owned)).size : owned.length
    return size <= limits.treeBytes && isLocalTree(await listMounts(), await realpath(target))
  } catch {
    return false
  }
}

async function bytesOf(target: string, paths: Iterable<string>): Promise<number> {
  let bytes = 0
  await abreast(paths, async path => {
    const found = await lstat(`${target}/${path}`).catch(() => null)
    if (found?.isFile()) bytes += found.size
  })
  return bytes
}
