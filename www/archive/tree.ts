/*
 * The tree of what is about to be deployed, for a plan: a line with the digest of each file (lib/archive/tree-wire.ts
 * reads it). Files are read one after the other, so one of them is in memory at a time.
 */
import { compareTreePaths, fileType, linkMode, linkType, treeHead, treeLine } from '../shared/tree-text.js'
import { t } from '../words/t.js'
import { readZip } from './read-zip.js'
import type { PackEntry } from './zip.js'

/** A file to be deployed. */
interface TreeSource {
  path: string
  /** File type and permission bits. */
  mode: number
  mtimeMs: number
  bytes: number
  read(): Promise<ArrayBuffer>
}

/** Options of a tree. */
export interface TreeOptions {
  signal: AbortSignal
  /** Called with the number of bytes that were read. */
  onProgress(bytes: number): void
}

/** A tree cannot be made here. The message is for the user. */
export class CannotPlan extends Error {
  override readonly name = 'CannotPlan'
}

/** Larger files are not read into memory. */
const maxFileBytes = 256 * 1024 * 1024
const permissionBits = 0o777
const typeBits = 0o170000
const program = [0x23, 0x21]

/** Returns the body of a request for a plan. Rejects with CannotPlan, or with the reason of the signal. */
export async function treeOfFiles(entries: readonly PackEntry[], options: TreeOptions): Promise<Blob> {
  const sources = entries.flatMap(({ path, file }): TreeSource[] => {
    if (file === null) return []
    // Archives contain whole seconds.
    const mtimeMs = Math.floor(file.lastModified / 1000) * 1000
    return [{ path, mode: 0, mtimeMs, bytes: file.size, read: () => file.arrayBuffer() }]
  })
  return treeOf(sources, options)
}

/** Returns the body of a request for a plan of a zip like `treeOfFiles`. */
export async function treeOfZip(file: File, options: TreeOptions): Promise<Blob> {
  const entries = await readZip(file)
  const sources = entries.flatMap(({ path, isDirectory, bytes, mode, read }): TreeSource[] => {
    const name = path.replace(/^(?:\.\/)+/, '')
    const isLink = (mode & typeBits) === linkType
    const permissions = mode & permissionBits || 0o644
    // The time decides only whether an unchanged file gets another one.
    return isDirectory
      ? []
      : [{ path: name, mode: isLink ? linkMode : fileType | permissions, mtimeMs: 0, bytes, read }]
  })
  return treeOf(sources, options)
}

async function treeOf(sources: readonly TreeSource[], { signal, onProgress }: TreeOptions): Promise<Blob> {
  if (globalThis.crypto.subtle === undefined) {
    throw new CannotPlan(t('Files can be compared only over HTTPS or on the server itself.'))
  }
  const sorted = [...sources].sort((a, b) => compareTreePaths(a.path, b.path))
  const [lines, canonical] = [['svc-tree 1 64\n'], [treeHead]]
  for (const { path, mode, mtimeMs, bytes, read } of sorted) {
    signal.throwIfAborted()
    if (bytes > maxFileBytes) throw new CannotPlan(t('“{path}” is too large to be compared here.', { path }))
    const contents = await read()
    const digest = await sha256(contents)
    const entry = { path, mode: mode === 0 ? modeOf(contents) : mode, size: contents.byteLength, sha256: digest }
    lines.push(`${entry.mode.toString(8)} ${entry.size} ${digest} ${mtimeMs} ${path}\n`)
    canonical.push(treeLine(entry))
    onProgress(bytes)
  }
  const treeSha256 = await sha256(await new Blob(canonical).arrayBuffer())
  return new Blob([...lines, `end ${sorted.length} ${treeSha256}\n`], { type: 'text/vnd.svc-tree' })
}

/** A file that begins with `#!` is packed as a program (zip.ts). */
function modeOf(contents: ArrayBuffer): number {
  const [first, second] = new Uint8Array(contents.slice(0, 2))
  return first === program[0] && second === program[1] ? 0o100755 : 0o100644
}

async function sha256(bytes: ArrayBuffer): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return [...digest].map(byte => byte.toString(16).padStart(2, '0')).join('')
}
