/*
 * Makes the differences within files that a push sends instead of their contents (core/archive/patch.ts). The server says
 * sums of what it has. Files are read once more, a few megabytes at a time.
 */
import { readSync } from 'node:fs'
import type { BaseEntries, BaseEntry, TreeDelta } from '../../base/shared/tree-delta.js'
import { linkMode } from '../../base/shared/tree-text.js'
import {
  blockBytesOf,
  createPatchWriter,
  maxPatchBytes,
  maxSummedBytes,
  maxSummedFiles,
  sumsBytesOf,
  writePatch
} from '../../core/archive/patch.js'
import { isWorthDeflating, sourceChanged, withFile, type ZipSource } from '../../core/archive/source.js'

/** The differences within some files. */
export interface Patches {
  /** The name of their entry in the archive, which the tree does not have. */
  name: string
  contents: Buffer
  /** The files. */
  paths: ReadonlySet<string>
  /** Total size of the files in bytes. */
  bytes: number
}

interface Making {
  delta: TreeDelta
  base: BaseEntries
  sources: readonly ZipSource[]
  /** Asks for the sums of files of the base, by the numbers of their lines; null: the server does not have them. */
  ask(lines: number[]): Promise<Buffer | null>
  signal: AbortSignal
}

/** Differences within smaller files are not smaller than these. */
const minFileBytes = 1024
/** Less than this does not pay for one more request. */
const minGainBytes = 8 * 1024
/** What deflating leaves of a usual file. */
const deflatedShare = 0.3
/** If more of a file is new, all of it is sent. */
const maxShare = 0.8

/** If many files have changed, so many of them are tried first: a new build may have nothing in common with the base. */
const sampleFiles = 32

/** Returns the differences within the files where they pay; null: nowhere. */
export async function makePatches(making: Making): Promise<Patches | null> {
  const candidates = candidatesOf(making)
  if (candidates.reduce((sum, { gainBytes }) => sum + gainBytes, 0) < minGainBytes) return null
  const step = Math.floor(candidates.length / sampleFiles)
  if (step >= 4) {
    const sample = candidates.filter((_, at) => at % step === 0)
    const tried = await patchAll(sample, making)
    if ((tried?.paths.size ?? 0) < sample.length / 4) return null
  }
  return await patchAll(candidates, making)
}

async function patchAll(
  candidates: readonly Candidate[],
  { delta, sources, ask, signal }: Making
): Promise<Patches | null> {
  const sums = await ask(candidates.map(({ line }) => line))
  if (sums?.length !== candidates.reduce((sum, { before }) => sum + sumsBytesOf(before.size), 0)) return null
  const patched = new Set(candidates.map(({ path }) => path))
  const sourceOf = new Map(sources.filter(({ path }) => patched.has(path)).map(source => [source.path, source]))
  const numberOf = new Map(delta.changed.map(({ path }, number) => [path, number]))
  const patches = createPatchWriter()
  const paths = new Set<string>()
  let [at, bytes] = [0, 0]
  for (const { path, size, before } of candidates) {
    signal.throwIfAborted()
    const own = { bytes: before.size, sums: sums.subarray(at, (at += sumsBytesOf(before.size))) }
    const maxBytes = Math.min(maxShare * size, maxPatchBytes - patches.bytes())
    const out = { number: numberOf.get(path) as number, maxBytes, patches }
    const isWritten = withFile(sourceOf.get(path) as ZipSource, file => {
      const read = (into: Uint8Array, from: number): number => {
        const length = readSync(file, into, 0, into.length, from)
        if (length === 0) throw sourceChanged(path)
        return length
      }
      return writePatch(own, { bytes: size, read }, out)
    })
    if (!isWritten) continue
    paths.add(path)
    bytes += size
  }
  if (paths.size === 0) return null
  return { name: freeName(sources), contents: patches.end(), paths, bytes }
}

/** A file that may be sent as differences. */
interface Candidate {
  path: string
  size: number
  before: BaseEntry
  /** How much smaller than its contents they may be. */
  gainBytes: number
  /** Its line in the tree of the base. */
  line: number
}

/** Returns the files of which the base has earlier contents at the same path, within the limits of one request. */
function candidatesOf({ delta, base }: Making): Candidate[] {
  const missing = new Set(delta.missing.map(({ path }) => path))
  const found = new Map<string, { before: BaseEntry; line: number }>()
  let line = 0
  for (const before of missing.size === 0 ? [] : base.values()) {
    if (missing.has(before.path)) found.set(before.path, { before, line })
    line++
  }
  let bytes = 0
  return delta.missing
    .flatMap(({ path, size, mode }) => {
      const { before, line } = found.get(path) ?? {}
      if (before === undefined || line === undefined || mode === linkMode || before.mode === linkMode) return []
      if (Math.min(size, before.size) < minFileBytes) return []
      const sentBytes = isWorthDeflating({ path, kind: 'file', bytes: size }) ? deflatedShare * size : size
      const gainBytes = sentBytes - sumsBytesOf(before.size) - blockBytesOf(before.size)
      bytes += Math.max(size, before.size)
      const isTaken = gainBytes > 0 && bytes <= maxSummedBytes
      if (!isTaken) bytes -= Math.max(size, before.size)
      return isTaken ? [{ path, size, before, gainBytes, line }] : []
    })
    .slice(0, maxSummedFiles)
}

/** Returns a name that no file or directory has. */
function freeName(sources: readonly ZipSource[]): string {
  const taken = new Set(sources.map(({ path }) => path.split('/')[0]))
  let name = '.svc-patches'
  while (taken.has(name)) name += '-'
  return name
}
