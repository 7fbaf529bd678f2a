import { finished } from 'node:stream/promises'
import { createIgnore, walkTree } from '../../core/archive/walk.js'
import type { ZipSource } from '../../core/archive/source.js'
import { writeZip } from '../../core/archive/write.js'
import { Refusal } from '../../base/errors.js'
import { withWriteStream } from '../../base/files.js'
import { holdTargetAsync } from '../../core/install/held.js'

/** Which target is packed, and how. */
export interface PackTargetOptions {
  /** The deployPath of a project. */
  target: string
  ignore: string[]
  ignoreBuiltin: boolean
  signal?: AbortSignal | undefined
}

/** The result of packing. If nothing could be packed, `bytes` is 0 and `note` says why. */
export interface PackedTarget {
  bytes: number
  note: string | null
}

/**
 * Packs the files of a target, except for those that match the ignore rules. `write` writes the zip and returns its
 * size. A target that cannot be packed (it is missing or empty, a link leaves it, a file is unreadable) gives a note
 * instead of an error, so that the other projects of an export are still packed.
 */
export async function packTarget(
  { target, ignore, ignoreBuiltin, signal }: PackTargetOptions,
  write: (sources: ZipSource[]) => Promise<number>
): Promise<PackedTarget> {
  const nothing = (why: string): PackedTarget => ({ bytes: 0, note: `no archive is kept, and ${why}` })
  const root = await realOf(target)
  if (root === null) return nothing('its target does not exist')
  if (root instanceof Refusal) return nothing(`its target was left out: ${root.message}`)
  const rules = createIgnore({ builtin: ignoreBuiltin, project: [], cli: ignore, root })
  const sources: ZipSource[] = []
  const notes: string[] = []
  try {
    const warn = (sentence: string): void => void notes.push(sentence)
    await walkTree(
      '',
      { root, ignore: rules, globs: null, except: () => false, warn, mayBeExchanged: true, signal },
      source => sources.push(source)
    )
    if (sources.length === 0) return nothing('its target is empty')
    const zipBytes = await write(sources)
    return { bytes: zipBytes, note: notes.length === 0 ? null : notes.join('; ') }
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof Refusal) return nothing(`its target was left out: ${error.message}`)
    throw error
  }
}

/** Returns the real path of a target; null if it does not exist or is not a directory. */
async function realOf(target: string): Promise<string | Refusal | null> {
  try {
    const held = await holdTargetAsync(target)
    held.close()
    return held.real
  } catch (error) {
    if (error instanceof Refusal && error.code !== 'target_is_a_file') return error
    return null
  }
}

/**
 * Writes the zip to a new file and returns its size. The file is closed when the promise settles, even after an error.
 */
export async function writeToFile(
  path: string,
  sources: ZipSource[],
  signal: AbortSignal | undefined
): Promise<number> {
  return withWriteStream(path, { flags: 'wx', mode: 0o600 }, async out => {
    const { zipBytes } = await writeZip(sources, out, { signal })
    out.end()
    await finished(out)
    return zipBytes
  })
}
