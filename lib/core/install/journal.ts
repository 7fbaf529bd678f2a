/*
 * The file of an undo journal (undo.ts), either by its path or as an open file. A helper process gets it open, because
 * it has no permission to access the data directory. undo.ts says which process that is.
 */

import { basename, dirname } from 'node:path'
import { type Disk, syncDirectoryAsync, syncOpen, writeFully } from './disk.js'
import type { KeptOwner } from './kept-owner.js'
import type { StagingSigns } from './staging.js'

/** Maximum size of a journal, and of its lines: each of 200,000 entries has a few. What is larger svc has not written. */
const maxJournalBytes = 256 * 1024 * 1024
const maxJournalLines = 4_000_000

/** The first line of a journal of the current version. */
const journalVersion = 'svc-undo 4'

/**
 * Every character that could end a line, or look like the end of one, and the escape character of the encoding itself.
 */
const encoded = /[\u0000-\u001f\u007f%]/g

/**
 * Returns a path as journals contain it since version 3: on one line, with control characters and `%` written as `%0A`.
 */
export function encodePath(path: string): string {
  return path.replace(encoded, found => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

/** Decodes the result of `encodePath`. */
export function decodePath(text: string): string {
  return text.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
}

/** The operations of an extraction, or of its recovery, on its journal. */
export interface JournalFile {
  readonly deployId: string
  /** Creates the journal and writes its target. The journal is on disk when this resolves. */
  begin(target: string): Promise<void>
  append(batches: Iterable<string>, options?: { isSynced?: boolean }): void
  /** Appends at once, and syncs without blocking the thread. */
  appendAsync(batches: Iterable<string>): Promise<void>
  /** Returns the whole text, and the user that must own staging. A text that svc cannot have written is empty. */
  read(): { text: string; user: number }
  /** Removes the journal: the extraction has finished. */
  remove(): void
}

export function journalAt(disk: Disk, path: string): JournalFile {
  const use = <T>(flags: string, work: (opened: OpenedFile) => T): T => {
    const fd = disk.openSync(path, flags, 0o600)
    try {
      return work({ disk, fd })
    } finally {
      disk.closeSync(fd)
    }
  }
  const useAsync = async (flags: string, batches: Iterable<string>): Promise<void> => {
    const fd = disk.openSync(path, flags, 0o600)
    try {
      await writeAsync({ disk, fd }, batches)
    } finally {
      disk.closeSync(fd)
    }
  }
  return {
    deployId: deployIdOf(path),
    async begin(target) {
      disk.closeSync(disk.openSync(path, 'wx', 0o600))
      try {
        await useAsync('a', [`${journalVersion}\ntarget ${encodePath(target)}\n`])
        await syncDirectoryAsync(disk, dirname(path))
      } catch (error) {
        // Nothing has been made in the target, so nobody needs the journal.
        disk.unlinkSync(path)
        throw error
      }
    },
    append: (batches, { isSynced = true } = {}) => use('a', file => writeTo(file, batches, isSynced)),
    appendAsync: batches => useAsync('a', batches),
    read: () => use('r', ({ fd }) => ({ text: readAll(disk, fd), user: disk.fstatSync(fd).uid })),
    remove: () => disk.unlinkSync(path)
  }
}

/**
 * Returns the journal of a helper process. svc has opened it for appending and has written its head. `remove` empties
 * it; svc then removes the file.
 */
export function openedJournal(disk: Disk, fd: number, deployId: string): JournalFile {
  return {
    deployId,
    begin: target => writeAsync({ disk, fd }, [`target ${encodePath(target)}\n`]),
    append: (batches, { isSynced = true } = {}) => writeTo({ disk, fd }, batches, isSynced),
    appendAsync: batches => writeAsync({ disk, fd }, batches),
    // Read by position: the file may have been read before.
    read: () => ({ text: readAll(disk, fd), user: process.geteuid?.() ?? 0 }),
    remove: () => disk.ftruncateSync(fd, 0)
  }
}

/** Returns the id of the deployment that the journal at `path` belongs to. */
export function deployIdOf(path: string): string {
  return basename(path, '.undo')
}

/** The head of a journal that a helper process continues. */
export const journalHead = `${journalVersion}\n`

/** The helper process that an earlier version of svc has noted in a journal. */
export interface NotedHelper {
  user: string
  pid: number
  startedAt: string
}

/** Returns the helper process that an earlier version of svc has noted in a journal, or null. */
export function notedHelper(text: string): NotedHelper | null {
  const [, user = '', pid = '', startedAt = ''] = /^[^\n]*\nhelper (\S+) (\d+) (\d+)\n/.exec(text) ?? []
  return user === '' ? null : { user, pid: Number(pid), startedAt }
}

interface OpenedFile {
  disk: Disk
  fd: number
}

function writeTo({ disk, fd }: OpenedFile, batches: Iterable<string>, isSynced: boolean): void {
  for (const batch of batches) writeFully(disk, fd, Buffer.from(batch))
  if (isSynced) disk.fdatasyncSync(fd)
}

async function writeAsync({ disk, fd }: OpenedFile, batches: Iterable<string>): Promise<void> {
  writeTo({ disk, fd }, batches, false)
  await syncOpen(disk, 'fdatasync', fd)
}

function readAll(disk: Disk, fd: number): string {
  const { size } = disk.fstatSync(fd)
  if (size > maxJournalBytes) return ''
  const bytes = Buffer.alloc(size)
  let length = 0
  while (length < bytes.length) {
    const count = disk.readSync(fd, bytes, length, bytes.length - length, length)
    if (count === 0) break
    length += count
  }
  return hasTooManyLines(bytes) ? '' : bytes.toString('utf8', 0, length)
}

function hasTooManyLines(bytes: Buffer): boolean {
  let count = 0
  if (bytes.length > maxJournalLines) for (let at = -1; (at = bytes.indexOf(10, at + 1)) !== -1; ) count++
  return count > maxJournalLines
}

/*
 * Writes and reads undo journals. undo.ts describes the format.
 */

/** Versions that do not encode paths. */
const plainVersions = new Set(['svc-undo 1', 'svc-undo 2'])
/** Versions that encode paths. */
const encodedVersions = new Set(['svc-undo 3', journalVersion])
/** Number of lines that are collected before a write. */
const batchLines = 2_000

/** The journal of an extraction in progress. */
export type Journal = Awaited<ReturnType<typeof beginJournal>>

/** Begins the journal of an extraction into a target. It is on disk when this resolves. */
export async function beginJournal(file: JournalFile, target: string) {
  await file.begin(target)
  let sum = sumSeed
  let at: JournalPlace | undefined
  return {
    file,

    /**
     * Records that the staging directory was created with this mark. Reaches the disk together with the list; nothing is
     * moved before that.
     */
    staged(mark: string, place?: JournalPlace): void {
      at = place
      file.append([`staging ${mark}\n`], { isSynced: false })
    },

    /** Writes and syncs the list of actions, before the first of them, and what goes with it (FoundJournal). */
    ready: (lines: Iterable<JournalLine>, more: Partial<FoundState> = {}): Promise<void> =>
      file.appendAsync(formatLines(lines, total => (sum = total), formatPlace(at, more))),
    /** Records that everything is in place, and that it may still be put back. */
    placed: (): Promise<void> => file.appendAsync([`${formatPlaced(Date.now(), sum)}\n`]),
    /** Records that everything is in place: from here on nothing is undone. */
    done: (): Promise<void> => file.appendAsync(['done\n'])
  }
}

function* formatLines(lines: Iterable<JournalLine>, onSum: (sum: number) => void, place: string): Generator<string> {
  let crc = sumSeed
  let count = 0
  let batch: string[] = []
  const take = (): string => {
    const text = batch.join('')
    crc = checksum(text, crc)
    count += batch.length
    batch = []
    return text
  }
  for (const line of lines) {
    batch.push(formatLine(line))
    if (batch.length >= batchLines) yield take()
  }
  yield take()
  onSum(crc)
  // Earlier versions pass over lines after `ready` that they do not know.
  yield `ready ${count} ${crc.toString(16)}\n`
  if (place !== '') yield place
}

function formatPlace(
  at: JournalPlace | undefined,
  { modes = new Map(), groups = new Map(), owners = new Map() }: Partial<FoundState>
): string {
  const folders = [
    ...[...modes].map(([path, mode]) => `m ${mode.toString(8)} ${encodePath(path)}\n`),
    ...[...groups].map(([path, gid]) => `g ${gid} ${encodePath(path)}\n`)
  ].join('')
  const kept = [...owners].map(
    ([aside, { mode, uid, gid, ino }]) => `o ${aside} ${mode.toString(8)} ${uid} ${gid} ${ino}\n`
  )
  return at === undefined ? '' : `at ${at.target} ${at.staging}\n${folders}${kept.join('')}`
}

function formatPlaced(atMs: number, sum: number): string {
  return `placed ${atMs} ${checksum(String(atMs), sum).toString(16)}`
}

/**
 * The seed is not 0 as in plain versions. With 0, NULs before the list, which a power cut may leave in a line, would
 * not change the sum.
 */
const sumSeed = 1

/** A sum over the text that distinguishes a torn list from a complete one. The number of lines does most of that. */
function checksum(text: string, seed: number): number {
  let sum = seed
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) >>> 0
  return sum
}

/** The contents of a journal. */
export interface FoundJournal extends StagingSigns {
  target: string
  state: 'begun' | 'ready' | 'placed' | 'reverting' | 'done' | 'undone'
  /** When everything was in place, in ms since 1970; null if the journal never said so before it said `done`. */
  placedAtMs: number | null
  /** Which directories they were; null in journals of earlier versions. */
  place: JournalPlace | null
  /** The permission bits of the folders that contained what was replaced or removed: somebody may remove one. */
  modes: ReadonlyMap<string, number>
  /** The groups of these folders and of removed directories, if they are not that of the process. */
  groups: ReadonlyMap<string, number>
  /** Owner and permissions of what is kept aside, by its number: a script may change them. */
  owners: ReadonlyMap<number, KeptOwner>
  lines: JournalLine[]
}

type FoundState = Pick<FoundJournal, 'modes' | 'groups' | 'owners'>

/** The device and the inode of the target and of the staging directory, as `<device>:<inode>`. */
export interface JournalPlace {
  target: string
  staging: string
}

/** Reads a journal. Returns null if not even the head is complete: then nothing was created yet. */
export function readJournal(file: Pick<JournalFile, 'read' | 'deployId'>): FoundJournal | null {
  const { text, user } = file.read()
  const parts = text.split('\n')
  const version = parts.shift() ?? ''
  const isPlain = plainVersions.has(version)
  const pathOf = isPlain ? (path: string) => path : decodePath
  if (parts[0]?.startsWith('helper ')) parts.shift()
  const isKnown = isPlain || encodedVersions.has(version)
  if (!isKnown || !parts[0]?.startsWith('target ') || parts.length < 2) return null
  const target = pathOf(parts[0].slice('target '.length))
  const mark = parts.length > 2 && parts[1]?.startsWith('staging ') ? parts[1].slice('staging '.length) : null
  const found = {
    target,
    deployId: file.deployId,
    user,
    mark,
    placedAtMs: null,
    place: null,
    modes: new Map<string, number>(),
    groups: new Map<string, number>(),
    owners: new Map<number, KeptOwner>()
  }
  const begin = mark === null ? 1 : 2
  const end = parts.findIndex((part, i) => i >= begin && part.startsWith('ready '))
  if (end === -1 || end === parts.length - 1) return { ...found, state: 'begun', lines: [] }
  const listed = parts.slice(begin, end)
  const sum = checksum(listed.map(line => `${line}\n`).join(''), isPlain ? 0 : sumSeed)
  if (parts[end] !== `ready ${listed.length} ${sum.toString(16)}`) return { ...found, state: 'begun', lines: [] }
  // The last part has no newline: it is torn, or empty.
  const last = parts.slice(end + 1, -1)
  const placedAtMs = placedTimeOf(last, sum)
  const state = stateOf(last, placedAtMs !== null)
  return {
    ...found,
    state,
    placedAtMs,
    place: placeIn(last),
    modes: numbersIn(last, /^m ([0-7]{1,4}) (.+)$/, 8),
    groups: numbersIn(last, /^g (\d{1,10}) (.+)$/, 10),
    owners: ownersIn(last),
    lines: listed.map(line => parseLine(line, pathOf))
  }
}

function stateOf(last: readonly string[], isPlaced: boolean): FoundJournal['state'] {
  if (last.includes('undone')) return 'undone'
  if (last.includes('done')) return 'done'
  if (!isPlaced) return 'ready'
  return last.includes('reverting') ? 'reverting' : 'placed'
}

function placeIn(last: readonly string[]): JournalPlace | null {
  const [, target, staging] = last.map(line => /^at (\d+:\d+) (\d+:\d+)$/.exec(line)).find(Boolean) ?? []
  return target === undefined || staging === undefined ? null : { target, staging }
}

/** Returns the numbers of the lines that match, by their paths. */
function numbersIn(last: readonly string[], pattern: RegExp, radix: number): ReadonlyMap<string, number> {
  const found = last.flatMap(line => {
    const [, number, path] = pattern.exec(line) ?? []
    return number === undefined || path === undefined ? [] : [[decodePath(path), parseInt(number, radix)] as const]
  })
  return new Map(found)
}

function ownersIn(last: readonly string[]): ReadonlyMap<number, KeptOwner> {
  const found = last.flatMap(line => {
    const [, aside, mode, uid, gid, ino] = /^o (\d+) ([0-7]{1,4}) (\d+) (\d+) (\d+)$/.exec(line) ?? []
    if (aside === undefined || mode === undefined) return []
    return [[Number(aside), { mode: parseInt(mode, 8), uid: Number(uid), gid: Number(gid), ino: Number(ino) }] as const]
  })
  return new Map(found)
}

/** Returns the time of a complete line `placed`, or null. */
function placedTimeOf(last: readonly string[], sum: number): number | null {
  const line = last.find(each => each.startsWith('placed '))
  const atMs = Number(line?.split(' ')[1])
  return line !== undefined && line === formatPlaced(atMs, sum) ? atMs : null
}

/* One line of the list in an undo journal: one action of a commit. undo.ts describes the format. */

/** A file whose time is the only thing that changes. */
export interface TimeLine {
  kind: 'T'
  path: string
  fromMs: number
  toMs: number
}

/** A file that is removed. */
export interface RemoveLine {
  kind: 'X'
  path: string
  aside: number
}

/** One action of a commit. Its kind is the letter in the journal. */
export type JournalLine =
  | { kind: 'D' | 'd' | 'n' | 'N'; path: string }
  | { kind: 'R'; path: string; aside: number }
  | TimeLine
  | RemoveLine
  | { kind: 'x'; path: string; mode: number }

/** Formats a line in the current version, including its newline. */
export function formatLine(line: JournalLine): string {
  const path = encodePath(line.path)
  switch (line.kind) {
    case 'R':
    case 'X':
      return `${line.kind} ${line.aside} ${path}\n`
    case 'x':
      return `x ${line.mode.toString(8)} ${path}\n`
    case 'T':
      return `T ${line.fromMs} ${line.toMs} ${path}\n`
    default:
      return `${line.kind} ${path}\n`
  }
}

const withNumber: ReadonlySet<JournalLine['kind']> = new Set(['R', 'T', 'X', 'x'] as const)

/** Parses a line without its newline. `pathOf` decodes a path of the journal's version. */
export function parseLine(text: string, pathOf: (text: string) => string): JournalLine {
  const kind = text.slice(0, 1) as JournalLine['kind']
  if (!withNumber.has(kind)) return { kind, path: pathOf(text.slice(2)) } as JournalLine
  const first = text.indexOf(' ', 2)
  const number = text.slice(2, first)
  if (kind === 'R' || kind === 'X') return { kind, aside: Number(number), path: pathOf(text.slice(first + 1)) }
  if (kind === 'x') return { kind, mode: Number.parseInt(number, 8), path: pathOf(text.slice(first + 1)) }
  const second = text.indexOf(' ', first + 1)
  const [fromMs, toMs] = [Number(number), Number(text.slice(first + 1, second))]
  return { kind: 'T', fromMs, toMs, path: pathOf(text.slice(second + 1)) }
}
