/*
 * Collects dropped or chosen files as the entries of an archive. Of a single folder only the contents are packed:
 * dropping `dist` means the site in it. A folder among other items keeps its name.
 */
import { builtinIgnore, isBroughtAlong, neverPushed } from '../shared/tree-text.js'
import { formatBytes } from '../shared/api.js'
import { t } from '../words/t.js'
import { CannotPack, maxZipEntries, type PackEntry, type PackFile } from './zip.js'

/*
 * The built-in rules of `svc push` (§4.13) that leave files out of an archive, applied to the contents of a folder.
 * Pure. A test compares the decisions with those of the command.
 */

const builtin = builtinIgnore.map(expressionOf)
const never = neverPushed.map(expressionOf)

function expressionOf(name: string): RegExp {
  return new RegExp(`^${name.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
}

/** Whether a file or directory, with everything below it, is never packed. `path` is relative to the folder. */
export function isNeverPacked(path: string): boolean {
  return path.split('/').some(name => never.some(rule => rule.test(name)))
}

/** Whether a file or directory, with everything below it, is left out. `path` is relative to the folder. */
export function isLeftOut(path: string): boolean {
  const segments = path.split('/')
  const isOut = (name: string, depth: number): boolean =>
    builtin.some(rule => rule.test(name)) && !isBroughtAlong(name, segments.slice(0, depth).join('/'))
  return isNeverPacked(path) || segments.some(isOut)
}

/* The summary of an archive before it is deployed. Pure. */

/** A file or directory of the archive. */
export interface ContentEntry {
  path: string
  /** Size of a file in bytes; null for a directory. */
  bytes: number | null
}

/** Summary of an archive. */
export interface Contents {
  files: number
  bytes: number
  /** The largest files, largest first. */
  largest: ReadonlyArray<{ path: string; bytes: number }>
  /** Name of the top directory if it is the only entry at the top. */
  topFolder: string | null
  /** Paths that `svc push` would leave out. A directory is listed once. */
  unusual: readonly string[]
}

const shownFiles = 5

/** Returns the summary of the entries. */
export function contentsOf(entries: readonly ContentEntry[]): Contents {
  const files = entries.filter((entry): entry is { path: string; bytes: number } => entry.bytes !== null)
  const paths = entries
    .map(({ path }) => path.replace(/^(?:\.\/)+/, '').replace(/(?<!\/)\/+$/, ''))
    .filter(path => path !== '' && path !== '.')
  const tops = new Set(paths.map(path => path.split('/', 1)[0] as string))
  const [top] = tops
  const isFolder = tops.size === 1 && top !== undefined && paths.some(path => path.startsWith(`${top}/`))
  return {
    files: files.length,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    largest: [...files].sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1)).slice(0, shownFiles),
    topFolder: isFolder ? top : null,
    unusual: unusualAmong(paths)
  }
}

/** Returns the shortest paths that the rules leave out. */
function unusualAmong(paths: readonly string[]): string[] {
  const found = new Set<string>()
  for (const path of paths) {
    const segments = path.split('/')
    for (let count = 1; count <= segments.length; count++) {
      const head = segments.slice(0, count).join('/')
      if (!isLeftOut(head)) continue
      found.add(head)
      break
    }
  }
  return [...found]
}

/** Whether a name is that of another kind of archive, which would be deployed as a file: only zips are unpacked. */
export const isOtherArchive = (name: string): boolean =>
  /\.(?:tar|tgz|tbz2|txz|tar\.\w+|gz|bz2|xz|zst|7z|rar)$/i.test(name)
export const isZipName = (name: string): boolean => /\.zip$/i.test(name)

/** Limits of the server in bytes; null if unknown. */
export interface UploadLimits {
  uploadBytes: number | null
  extractedBytes: number | null
}

/** Returns the limits in the settings. */
export function limitsOf(settings: Readonly<Record<string, unknown>>): UploadLimits {
  const bytesOf = (key: string): number | null => {
    const megabytes = Number(settings[key])
    return Number.isFinite(megabytes) && megabytes > 0 ? megabytes * 1024 * 1024 : null
  }
  return { uploadBytes: bytesOf('max_upload_size'), extractedBytes: bytesOf('max_extracted_size') }
}

/** Returns the sentence for an archive that exceeds the server's limit. */
export function tooLarge(bytes: number, limitBytes: number): string {
  return t('Archive size {size} exceeds the limit of {limit} (setting max_upload_size).', {
    size: formatBytes(bytes),
    limit: formatBytes(limitBytes)
  })
}

export interface FoundFile {
  kind: 'file'
  name: string
  file(): Promise<PackFile>
}

export interface FoundFolder {
  kind: 'folder'
  name: string
  list(): Promise<Found[]>
}

export type Found = FoundFile | FoundFolder

/** The collected entries. */
export interface Gathered {
  entries: PackEntry[]
  /** Number of files. */
  files: number
  bytes: number
  /** Paths that the rules left out. A directory is listed once. */
  leftOut: string[]
  /** The paths among them that are never packed. */
  neverPacked: string[]
}

export interface GatherOptions {
  /** Leaves out only what is never packed. */
  isWhole?: boolean
  signal?: AbortSignal
  /** Called from time to time with the number of files found. */
  onProgress?: (files: number) => void
}

/** Returns the name of the archive. */
export function nameOf(found: readonly Found[]): string {
  const [only] = found
  return found.length === 1 && only !== undefined ? only.name : t('{count} items', { count: found.length })
}

/** Collects all files. Rejects with CannotPack, the reason of the signal, or the error of reading a folder. */
export async function gather(found: readonly Found[], options: GatherOptions = {}): Promise<Gathered> {
  const gathered: Gathered = { entries: [], files: 0, bytes: 0, leftOut: [], neverPacked: [] }
  const [only] = found
  if (found.length === 1 && only?.kind === 'folder') await walk(only, { outside: '', inside: '' })
  else {
    for (const item of inOrder(found)) await take(item, { outside: '', inside: null })
  }
  return gathered

  /** `outside` is the path in the archive; `inside` is the path in the chosen folder, to which the rules apply. */
  async function walk(folder: FoundFolder, { outside, inside }: { outside: string; inside: string }): Promise<void> {
    options.signal?.throwIfAborted()
    const items = inOrder(await folder.list())
    if (items.length === 0 && outside !== '') add({ path: outside, file: null })
    for (const item of items) await take(item, { outside, inside })
  }

  /** Takes one item. If `inside` is null, the user chose it by name and the rules do not apply. */
  async function take(item: Found, { outside, inside }: { outside: string; inside: string | null }): Promise<void> {
    const path = below(outside, checkedName(item.name))
    const seen = inside === null ? '' : below(inside, item.name)
    const isNever = inside !== null && isNeverPacked(seen)
    if (isNever) gathered.neverPacked.push(path)
    if (isNever || (inside !== null && options.isWhole !== true && isLeftOut(seen))) {
      gathered.leftOut.push(path)
      return
    }
    if (item.kind === 'folder') return walk(item, { outside: path, inside: seen })
    const file = await item.file()
    gathered.files++
    gathered.bytes += file.size
    add({ path, file })
    options.onProgress?.(gathered.files)
  }

  function add(entry: PackEntry): void {
    gathered.entries.push(entry)
    // Stop counting: there are too many files.
    if (gathered.entries.length > maxZipEntries) {
      throw new CannotPack(t('This is more than can be packed here (4 GiB, 65,535 files): use svc push in a terminal.'))
    }
  }
}

const below = (path: string, name: string): string => (path === '' ? name : `${path}/${name}`)

function inOrder(items: readonly Found[]): Found[] {
  return [...items].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

/** Characters that the server refuses in a name (lib/core/archive/names.ts). A test compares the lists. */
const refusedCharacter =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffd\p{Cs}]/gu

/** Returns a portable name: composed Unicode, without separators. */
function checkedName(name: string): string {
  const shown = name.replace(refusedCharacter, '\ufffd')
  if (name === '' || name === '.' || name === '..' || /[/\\]/.test(name) || shown !== name || name.includes('\ufffd')) {
    throw new CannotPack(
      t('“{path}” cannot be packed: its name has a character that a path may not have.', { path: shown })
    )
  }
  return name.normalize('NFC')
}

/** Returns the dropped items. Call it during the event: afterwards the browser forgets them. */
export function foundInDrop(items: DataTransferItemList): Found[] {
  return [...items].flatMap(item => {
    const entry = item.kind === 'file' ? item.webkitGetAsEntry() : null
    const file = item.kind === 'file' && entry === null ? item.getAsFile() : null
    if (entry !== null) return [foundOf(entry)]
    return file === null ? [] : [{ kind: 'file' as const, name: file.name, file: async () => file }]
  })
}

function foundOf(entry: FileSystemEntry): Found {
  if (entry.isFile) {
    const file = entry as FileSystemFileEntry
    return { kind: 'file', name: entry.name, file: () => new Promise((resolve, reject) => file.file(resolve, reject)) }
  }
  return { kind: 'folder', name: entry.name, list: () => listAll((entry as FileSystemDirectoryEntry).createReader()) }
}

/** Reads all entries of a folder. A reader returns a hundred at a time, and none at the end. */
async function listAll(reader: FileSystemDirectoryReader): Promise<Found[]> {
  const all: Found[] = []
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (some.length === 0) return all
    all.push(...some.map(foundOf))
  }
}

/** Returns the files of a control. Files of a chosen folder have their path (`webkitRelativePath`). */
export function foundInFiles(files: Iterable<PackFile & { name: string; webkitRelativePath?: string }>): Found[] {
  const root = createFolder('')
  for (const file of files) {
    const segments = (file.webkitRelativePath || file.name).split('/')
    let folder = root
    for (const name of segments.slice(0, -1)) folder = folder.within(name)
    folder.items.push({ kind: 'file', name: segments.at(-1) as string, file: async () => file })
  }
  return root.items
}

interface BuiltFolder extends FoundFolder {
  items: Found[]
  within(name: string): BuiltFolder
}

function createFolder(name: string): BuiltFolder {
  const items: Found[] = []
  const folders = new Map<string, BuiltFolder>()
  return {
    kind: 'folder',
    name,
    items,
    list: async () => items,
    within(name) {
      const known = folders.get(name)
      if (known !== undefined) return known
      const made = createFolder(name)
      folders.set(name, made)
      items.push(made)
      return made
    }
  }
}
