import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../lib/base/errors.js'
import { endJournal, extractArchive } from '../../lib/core/install/unpack/extract.js'
import {
  type Extracted,
  type ExtractionPaths,
  filesAt,
  runExtraction
} from '../../lib/core/install/unpack/extraction.js'
import { createExecutors, type Executors } from '../../lib/core/install/unpack/executors.js'
import { disk as realDisk, type Disk } from '../../lib/core/install/disk.js'
import type { Ownership } from '../../lib/core/install/ownership.js'
import type { SyncFileSystem } from '../../lib/core/install/durable.js'
import { snapshot } from './tree.js'

export interface ExtractionStage {
  target: string
  deployments: string
  archivePath: string
  /** What the extractions of this stage are told; undefined: nothing is known. */
  ownership: Ownership | undefined
  put(zip: Buffer): void
  /** Extracts in this thread, on any disk. */
  run(options?: {
    disk?: Disk
    maxEntries?: number
    maxExtractedBytes?: number
    isDurable?: boolean
    staysOpen?: boolean
    mayLeave?: boolean
    syncFileSystem?: SyncFileSystem
    check?: () => void
  }): Promise<ExtractedPaths>
  /**
   * Extracts as the product does, by default in threads that the tests of a file share; other executors may do what is
   * small without one.
   */
  runThreads(options?: {
    threads?: Executors
    signal?: AbortSignal | undefined
    maxExtractedBytes?: number
  }): Promise<ExtractedPaths>
  /** Returns the state of target and journals. */
  state(): string[]
}

/** The result of an extraction, with the paths of `changes`. */
export type ExtractedPaths = Extracted & { changedPaths: string[] }

function withPaths(extracted: Extracted): ExtractedPaths {
  return { ...extracted, changedPaths: Buffer.concat(extracted.changes).toString().split('\n').slice(0, -1) }
}

/** Limits with which even the smallest extraction takes a thread. */
export const nothingIsSmall = { archiveBytes: 0, bytes: 0, entries: 0, existingBytes: 0, treeBytes: 0 }

const sharedThreads = createExecutors({ small: nothingIsSmall })

/** Creates a place to extract to, below a directory of the test. */
export function extractionStage(
  directory: string,
  deployId = 'dep_test',
  target = join(directory, 'target')
): ExtractionStage {
  const deployments = join(directory, 'deployments')
  const archivePath = join(directory, 'archive.zip')
  mkdirSync(target, { recursive: true })
  mkdirSync(deployments, { recursive: true })
  const recorded = async (extracted: Extracted): Promise<ExtractedPaths> => {
    await endJournal({ deployments }, { deployId, target })
    return withPaths(extracted)
  }
  const stage: ExtractionStage = {
    target,
    deployments,
    archivePath,
    ownership: undefined,
    put: zip => writeFileSync(archivePath, zip),
    run: ({
      disk = realDisk,
      maxEntries = 200_000,
      maxExtractedBytes = 1e9,
      isDurable = true,
      staysOpen = false,
      mayLeave = false,
      syncFileSystem,
      check = () => {}
    } = {}) =>
      runExtraction(
        {
          target,
          deployId,
          umask: process.umask(),
          masksModes: false,
          limits: { maxEntries, maxExtractedBytes },
          ownership: stage.ownership,
          isDurable,
          staysOpen,
          mayLeave
        },
        filesAt(disk, pathsOf(directory, deployId)),
        { disk, check, syncFileSystem }
      ).then(recorded),
    runThreads: ({ threads = sharedThreads, signal = new AbortController().signal, maxExtractedBytes = 1e9 } = {}) =>
      extractArchive(threads, {
        archivePath,
        target,
        deployId,
        home: { deployments },
        limits: { maxEntries: 200_000, maxExtractedBytes },
        signal
      }).then(recorded),
    state: () => [...snapshot(target), ...snapshot(deployments)]
  }
  return stage
}

/** Returns the paths of an extraction's files, with the names of `extractArchive`. */
export function pathsOf(directory: string, deployId: string): ExtractionPaths {
  const deployments = join(directory, 'deployments')
  return {
    archivePath: join(directory, 'archive.zip'),
    journalPath: join(deployments, `${deployId}.undo`),
    manifestPath: join(deployments, `${deployId}.manifest`)
  }
}

/** Returns the refusal that `promise` must reject with. Throws any other error. */
export async function refusalOf(promise: Promise<unknown>): Promise<Refusal> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('It was not refused')
}
