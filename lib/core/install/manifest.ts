/*
 * `deployments/<id>.manifest`: what a deployment changed in the target, one line of JSON for each file that it put in
 * place, each entry that it removed, and each directory that it made (model/manifest.ts). The lines are sorted by the
 * UTF-8 bytes of the path (by UTF-16 units in earlier versions, which know files only). manifest-writer.ts writes it.
 * The line of a file that stayed as it was says `"before":"same"` in place of the same values again. Only `formatLine` and
 * `manifestLineOf` know that: to all others, and in packages (carry/transfer/export.ts), each line is whole.
 *
 * The file is complete or absent, even after a power cut: it is written under another name, synced, and renamed; then
 * the name is synced. A manifest of an earlier version may be torn, because it was not synced.
 */
import { createReadStream, existsSync, truncateSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { linesOf } from '../../base/text.js'
import { hasCode, Refusal } from '../../base/errors.js'
import {
  type Changes,
  deploymentIdPattern,
  type ManifestFile as FileLine,
  type ManifestLine,
  type RemovedEntry
} from '../../model/manifest.js'
import { removeBeforeImages } from './before-images.js'
import { type Disk, syncDirectory, syncDirectoryAsync, syncOpen } from './disk.js'
import { deployIdOf } from './journal.js'
import { parseScripted } from './scripted-file.js'
import type { Recovery } from './undo.js'

/** Summary of a manifest. */
export interface Manifest {
  /** Number of files and symbolic links. */
  fileCount: number
  /** Number of those that are new, or whose contents differ from before. */
  changedCount: number
  /** Number of the others whose permissions were changed. */
  modeCount: number
  /** Number of files and symbolic links that were removed. */
  removedCount: number
  /**
   * The paths of changed and of removed files, one per line, sorted; `- ` precedes a removed one. The text is in pieces,
   * as bytes, which can be transferred to another thread without copying.
   */
  changes: Array<Uint8Array<ArrayBuffer>>
}

/** The file that a manifest is written to. */
export interface ManifestFile {
  /** Calls `write` with the open file at once. Its contents and its name are on disk when this resolves. */
  fill(write: (fd: number) => void): Promise<void>
  remove(): void
}

export function manifestAt(disk: Disk, path: string): ManifestFile {
  const beside = unnamedManifest(path)
  return {
    async fill(write) {
      const fd = disk.openSync(beside, 'w', 0o600)
      try {
        write(fd)
        await syncOpen(disk, 'fdatasync', fd)
      } finally {
        disk.closeSync(fd)
      }
      disk.renameSync(beside, path)
      await syncDirectoryAsync(disk, dirname(path))
    },
    remove() {
      for (const each of [path, beside]) {
        if (disk.lstatSync(each, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(each)
      }
    }
  }
}

/** Returns the path of a manifest before it is renamed to its final name. */
export function unnamedManifest(path: string): string {
  return `${path}.tmp`
}

/** Maximum size of a manifest: two lines of about 1 KiB for each of 200,000 entries. */
const maxManifestBytes = 512 * 1024 * 1024

/**
 * Renames a written and synced manifest to its final name. The name is on disk when this returns. One that is larger
 * than svc would write, which a helper process can leave behind, is emptied: its reader then reports it as torn.
 */
export function nameManifest(disk: Disk, path: string): void {
  if (disk.lstatSync(unnamedManifest(path)).size > maxManifestBytes) truncateSync(unnamedManifest(path))
  disk.renameSync(unnamedManifest(path), path)
  syncDirectory(disk, dirname(path))
}

/**
 * Returns the manifest of a helper process (journal.ts). svc has opened it, and svc also renames and removes it.
 */
export function openedManifest(disk: Disk, fd: number): ManifestFile {
  return {
    async fill(write) {
      write(fd)
      await syncOpen(disk, 'fdatasync', fd)
    },
    remove: () => {}
  }
}

/**
 * Settles the manifest of an interrupted extraction: renames it if everything was in place, removes it if the
 * extraction was undone before that. Before-images of what is in the target again are removed, too.
 */
export function settleManifest(disk: Disk, journalPath: string, recovery: Recovery): void {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.manifest`)
  const isUnnamed = disk.lstatSync(unnamedManifest(path), { throwIfNoEntry: false }) !== undefined
  const wasPlaced = recovery === 'complete' || recovery === 'held' || recovery === 'reverted'
  if (wasPlaced && isUnnamed) nameManifest(disk, path)
  const isUndone = recovery === 'put back' || recovery === 'untouched'
  if (isUndone) manifestAt(disk, path).remove()
  // What was replaced is in the target again.
  if (isUndone || recovery === 'reverted') removeBeforeImages(disk, journalPath)
}

/** Returns the path of the manifest that belongs to a journal, or null. It may not have its final name yet. */
export function manifestOf(journalPath: string): string | null {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.manifest`)
  return [path, unnamedManifest(path)].find(existsSync) ?? null
}

/** Returns the path of what the scripts of the deployment of a journal changed, or null. */
export function scriptedOf(journalPath: string): string | null {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.scripted`)
  return existsSync(path) ? path : null
}

const typeBits = 0o170000
const directoryType = 0o040000
const archivePrefix = 'archive:'

/** Whether a file is new, or has other contents or another type than before. */
export function isChanged({ before, mode, sha256 }: Pick<FileLine, 'before' | 'mode' | 'sha256'>): boolean {
  return before === null || before.sha256 !== sha256 || (before.mode & typeBits) !== (mode & typeBits)
}

/** Whether only the permissions of a file, or its group, were changed. */
export function hasOtherMode(file: Pick<FileLine, 'before' | 'mode' | 'gid' | 'sha256'>): boolean {
  const { before, mode, gid } = file
  return !isChanged(file) && (before?.mode !== mode || (before?.owner !== undefined && before.owner.gid !== gid))
}

/** Returns the line of a list of changes for a line of a manifest; empty if it is no change of a file. */
export function changeOf(line: ManifestLine): string {
  if ('path' in line) return isChanged(line) ? `${line.path}\n` : ''
  if ('made' in line) return line.before === undefined ? '' : `- ${line.made}\n`
  return isRemovedFile(line) ? `- ${line.removed}\n` : ''
}

/** Whether a line is about a file or a link that was removed. */
export function isRemovedFile(line: ManifestLine): line is RemovedEntry {
  return 'removed' in line && line.before !== null && (line.before.mode & typeBits) !== directoryType
}

/**
 * Yields the lines of a manifest, sorted by path. Refuses (`conflict`, torn_manifest) an incomplete manifest;
 * `leastFiles` is the number of files that it must contain at least.
 */
export async function* readManifestLines(path: string, leastFiles = 0): AsyncGenerator<ManifestLine> {
  let fileCount = 0
  try {
    for await (const lines of linesOf(createReadStream(path)))
      for (const text of lines) {
        const line = parseLine(text)
        if ('path' in line) fileCount++
        yield line
      }
  } catch (error) {
    throw hasCode(error, 'EISDIR') ? torn(error) : error
  }
  if (fileCount < leastFiles) throw torn()
}

/** Yields the files of a manifest like `readManifestLines`. */
export async function* readManifest(path: string, leastFiles = 0): AsyncGenerator<FileLine> {
  for await (const line of readManifestLines(path, leastFiles)) if ('path' in line) yield line
}

/**
 * Returns the summary of a manifest on disk, the total size of its files in bytes, and the deployments whose archives
 * contain what was replaced or removed.
 */
export async function summarizeManifest(path: string): Promise<Manifest & { bytes: number; beforeFrom: string[] }> {
  const beforeFrom = new Set<string>()
  const changed: string[] = []
  let [fileCount, bytes, changedCount, modeCount, removedCount] = [0, 0, 0, 0, 0]
  for await (const line of readManifestLines(path)) {
    changed.push(changeOf(line))
    if (isRemovedFile(line)) removedCount++
    const source = line.before?.kept
    if (source !== undefined)
      beforeFrom.add(source.startsWith(archivePrefix) ? source.slice(archivePrefix.length) : source)
    if (!('path' in line)) continue
    fileCount++
    bytes += line.size
    if (isChanged(line)) changedCount++
    else if (hasOtherMode(line)) modeCount++
  }
  const changes = [new TextEncoder().encode(changed.join('')) as Uint8Array<ArrayBuffer>]
  return { fileCount, changedCount, modeCount, removedCount, changes, bytes, beforeFrom: [...beforeFrom] }
}

/** Returns the files of a manifest by their paths. `text` is its contents. */
export function parseManifest(text: string): Map<string, Pick<FileLine, 'size' | 'sha256'>> {
  const files = new Map<string, Pick<FileLine, 'size' | 'sha256'>>()
  for (const line of text.split('\n')) {
    if (line === '') continue
    const parsed = parseLine(line)
    if ('path' in parsed) files.set(parsed.path, parsed)
  }
  return files
}

/**
 * Returns the files of a deployment by their paths, as its scripts left them, given the contents of its manifest and of
 * what its scripts changed.
 */
export function placedFiles(manifest: string, scripted: string): Map<string, Pick<FileLine, 'size' | 'sha256'>> {
  const files = parseManifest(manifest)
  for (const [path, line] of parseScripted(scripted)) {
    if ('path' in line && line.isEarly !== true && files.has(path)) files.set(path, line)
  }
  return files
}

function parseLine(text: string): ManifestLine {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw torn(error)
  }
  const line = manifestLineOf(value)
  // What svc alone may say comes from nowhere else.
  if (line === null || 'ctimeMs' in line) throw torn()
  return line
}

/** Stands for what a file was before, if that is what it is now. Earlier versions take it for damage, not for a new file. */
const same = 'same'

/** Returns the text of a line, which ends with a newline. */
export function formatLine(line: ManifestLine): string {
  return `${JSON.stringify('path' in line && isAsBefore(line) ? { ...line, before: same } : line)}\n`
}

function isAsBefore({ size, mode, sha256, mtimeMs, before }: FileLine): boolean {
  if (before === null || before.kept !== undefined || before.owner !== undefined || before.gid !== undefined)
    return false
  return before.size === size && before.mode === mode && before.sha256 === sha256 && before.mtimeMs === mtimeMs
}

/**
 * Yields the text of a manifest with whole lines, as earlier versions of svc read it. A line that is damaged stays as it
 * is.
 */
export async function* wholeLines(path: string): AsyncGenerator<string> {
  for await (const lines of linesOf(createReadStream(path))) yield lines.map(text => `${wholeLine(text)}\n`).join('')
}

function wholeLine(text: string): string {
  if (!text.includes(`"before":"${same}"`)) return text
  try {
    return JSON.stringify(parseLine(text))
  } catch {
    return text
  }
}

/**
 * Returns the line that a parsed value is, or null. With `runAs`, a process of the project's user has written it, so
 * nothing is taken for granted: no path leads out of the target, and no id out of the data directory.
 */
export function manifestLineOf(value: unknown): ManifestLine | null {
  if (typeof value !== 'object' || value === null) return null
  const line = value as Record<string, unknown>
  if ('path' in line && line['before'] === same) {
    const { size, mode, sha256, mtimeMs } = line
    line['before'] = { size, mode, sha256, ...(mtimeMs !== undefined && { mtimeMs }) }
  }
  return isLine(line) ? (line as unknown as ManifestLine) : null
}

function isLine(line: Record<string, unknown>): boolean {
  if ('path' in line)
    return isPath(line['path']) && isEntry(line) && isOptional(line['ino']) && isEarlier(line['before'] ?? null)
  if ('removed' in line) return isPath(line['removed']) && isEarlier(line['before'])
  return isPath(line['made']) && isEarlier(line['before'] ?? null)
}

/** Returns the line of what scripts changed (scripted-file.ts) that a value of a package is, or null. It may come from anybody. */
export function scriptedLineOf(value: unknown): object | null {
  return typeof value === 'object' && value !== null && isScripted(value as Record<string, unknown>) ? value : null
}

function isScripted(line: Record<string, unknown>): boolean {
  if ('ctimeMs' in line) return false
  const { kept, before, isEarly } = line
  if ((isEarly !== undefined && isEarly !== true) || before === null || !isEarlier(before ?? null)) return false
  if (!('path' in line)) return isPath(line['removed'])
  return (
    isPath(line['path']) &&
    isEntry(line) &&
    isOptional(line['ino']) &&
    (kept === undefined || kept === 'scripted' || isKept(kept))
  )
}

function isPath(path: unknown): boolean {
  return typeof path === 'string' && path !== '' && !path.includes('\0') && !/^\/|(^|\/)\.\.?(\/|$)/.test(path)
}

/** Whether the fields that new and earlier files have in common are right. Times are optional in earlier versions. */
function isEntry({ size, mode, gid, sha256, mtimeMs }: Record<string, unknown>): boolean {
  if (gid != null && !isId(gid)) return false
  return isNumber(size) && isNumber(mode) && isOptional(mtimeMs) && typeof sha256 === 'string' && isDigest.test(sha256)
}

const isDigest = /^[0-9a-f]{64}$/
const isNumber = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value)
const isOptional = (value: unknown): boolean => value === undefined || value === null || isNumber(value)

function isEarlier(value: unknown): boolean {
  if (value === null) return true
  if (typeof value !== 'object') return false
  const { kept, owner, ...entry } = value as Record<string, unknown>
  return isEntry(entry) && (owner === undefined || isOwner(owner)) && (kept === undefined || isKept(kept))
}

function isOwner(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { uid, gid } = value as Record<string, unknown>
  return isId(uid) && isId(gid)
}

const isId = (value: unknown): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32

function isKept(kept: unknown): boolean {
  if (typeof kept !== 'string') return false
  return kept.startsWith(archivePrefix)
    ? deploymentIdPattern.test(kept.slice(archivePrefix.length))
    : kept === 'before' || kept === 'none'
}

function torn(cause?: unknown): Refusal {
  return new Refusal(
    'conflict',
    'torn_manifest',
    'The file list of this deployment is incomplete: a power cut damaged it, or it was changed. Deploy again',
    { cause }
  )
}

/** Returns the differences between two manifests, each sorted by path. Compares contents, kind, mode and group. */
export async function compareManifests(then: AsyncIterable<FileLine>, now: AsyncIterable<FileLine>): Promise<Changes> {
  const old = new Map<string, string>()
  const stateOf = ({ sha256, mode, gid }: FileLine): string => `${sha256} ${mode} ${gid ?? ''}`
  for await (const file of then) old.set(file.path, stateOf(file))
  const changes: Changes = { added: [], changed: [], removed: [] }
  for await (const file of now) {
    const was = old.get(file.path)
    if (was === undefined) changes.added.push(file.path)
    else if (was !== stateOf(file)) changes.changed.push(file.path)
    old.delete(file.path)
  }
  changes.removed.push(...old.keys())
  return changes
}
