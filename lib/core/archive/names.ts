/*
 * Checks the names in an archive. Every decision is based on the central directory alone, before a byte is written. A
 * name that could reach outside the target, or that two file systems would interpret differently, is refused with the
 * name of the entry. Nothing is repaired, with one exception: a segment `.` is dropped (`bsdtar` writes `./a`), because
 * it has only one possible meaning.
 *
 * Segments are separated by `/` (APPNOTE 4.4.17.1). A backslash is refused instead of being read as a separator.
 * Otherwise the same zip would create different trees on Linux and on Windows, and a checker before svc may have seen
 * another tree than svc does.
 *
 * Two names that a file system treats as the same (`Logo.png` and `logo.png`, `é` as one code point or two) would
 * silently overwrite each other there. Whether the target does so is determined only if the archive contains such a
 * pair.
 */

import { parentOf, stagingPrefix } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { formatBytes } from '../../base/shared/api.js'
import { invisibleCharacter, invisibleIn } from '../../base/text.js'

/** The part of an entry that the name checks need. */
export interface NamedEntry {
  path: string
  kind: 'file' | 'directory' | 'symlink'
}

/** The rules of the target for names. */
export interface NameRules {
  /** Whether the rules of Windows apply: device names, reserved characters, trailing dots and spaces. */
  windows: boolean
  /** Returns how the target's file system folds names. Called only if the answer matters. */
  folds(): { letterCase: boolean; normalForm: boolean }
}

/** Maximum length of a segment: NAME_MAX of every common file system. */
const maxSegmentBytes = 255
/** Maximum length of a path: PATH_MAX (4096) less 1 KiB for the target and the staging directory before it. */
const maxPathBytes = 3 * 1024

/**
 * Limits for the number of directories that the names imply, and for the total length of their paths: per entry, in
 * addition, and at most. A name of 3 KiB can imply 1,500 directories, each of which would be created. measured:
 * bench/hostile
 */
const maxDirectories = { ofEach: 8, beyond: 8 * 1024, atMost: 400_000 }
const maxDirectoryCharacters = { ofEach: 1024, beyond: 8 * 1024 * 1024, atMost: 64 * 1024 * 1024 }

/** C0, DEL, C1, and the two line separators. */
const controlCharacter = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/
/** The replacement that a decoder inserts for invalid UTF-8, and half of a surrogate pair. */
const undecodable = /[\ufffd\p{Cs}]/u
const notAscii = /[^\u0000-\u007f]/
/** The usual name: segments of letters, digits and a few signs that begin with no dot. No other check can refuse it. */
export const plainName = /^(?:[\w@-][\w@.-]{0,80}\/){0,30}[\w@-][\w@.-]{0,80}$/
const windowsDevice = /^(con|prn|aux|nul|conin\$|conout\$|com[1-9\u00b9\u00b2\u00b3]|lpt[1-9\u00b9\u00b2\u00b3])(\.|$)/i
const windowsReserved = /[<>:"|?*]/

/**
 * Returns the path of an entry's name: without `.` segments and trailing slash; `''` for the target itself. Refuses
 * (`invalid`): empty_name, control_character_in_name, invisible_character_in_name, undecodable_name, backslash_in_name,
 * absolute_path, path_leaves_target, empty_segment, name_too_long, reserved_name.
 */
export function readName(name: string, rules: Pick<NameRules, 'windows'>): string {
  if (!rules.windows && plainName.test(name)) return name
  if (name === '') throw refuse('empty_name', name, 'its name is empty')
  checkCharacters(name, name, 'its name')
  if (name.includes('\\'))
    throw refuse('backslash_in_name', name, 'its name contains a backslash. Use "/" between directories')
  if (name.startsWith('/')) throw refuse('absolute_path', name, 'its path is absolute, but must be relative')
  if (/^[a-z]:/i.test(name)) throw refuse('absolute_path', name, 'its path begins with a drive letter')
  const segments = name.endsWith('/') ? name.slice(0, -1).split('/') : name.split('/')
  for (const segment of segments) checkSegment(segment, name, rules)
  const path = segments.includes('.') ? segments.filter(segment => segment !== '.').join('/') : segments.join('/')
  if (path.length > maxPathBytes / 3 && Buffer.byteLength(path) > maxPathBytes) {
    throw refuse('name_too_long', name, `its path is longer than ${maxPathBytes} bytes`)
  }
  if (path.startsWith(stagingPrefix))
    throw refuse('reserved_name', name, `names that begin with "${stagingPrefix}" are reserved for svc`)
  return path
}

/**
 * Refuses characters that `text`, a part of the entry `name`, must not contain. `what` names that part in the message.
 */
export function checkCharacters(text: string, name: string, what: string): void {
  if (controlCharacter.test(text))
    throw refuse('control_character_in_name', name, `${what} contains a control character`)
  const point = invisibleIn(text)
  if (point !== null) {
    throw refuse(
      'invisible_character_in_name',
      name,
      `${what} contains the invisible character ${point}, which can make it look like another name. Rename the file`
    )
  }
  if (undecodable.test(text)) throw refuse('undecodable_name', name, `${what} is not valid UTF-8`)
}

function checkSegment(segment: string, name: string, rules: Pick<NameRules, 'windows'>): void {
  if (segment === '..') throw refuse('path_leaves_target', name, 'its path contains a ".." segment')
  if (segment === '') throw refuse('empty_segment', name, 'its path contains an empty segment ("//")')
  if (segment.length > maxSegmentBytes / 3 && Buffer.byteLength(segment) > maxSegmentBytes) {
    throw refuse('name_too_long', name, `a name in its path is longer than ${maxSegmentBytes} bytes`)
  }
  if (!rules.windows || segment === '.') return
  if (windowsReserved.test(segment))
    throw refuse('reserved_name', name, 'Windows does not allow < > : " | ? * in names')
  if (windowsDevice.test(segment)) throw refuse('reserved_name', name, `"${segment}" is a device on Windows`)
  if (/[. ]$/.test(segment))
    throw refuse('reserved_name', name, 'Windows removes a dot or a space at the end of a name')
}

/**
 * Checks the names of an archive against each other. Refuses (`invalid`): duplicate_entry, file_and_directory,
 * written_through_link, too_many_directories.
 */
export function checkNames(entries: readonly NamedEntry[], rules: NameRules): void {
  if (areAllDistinct(entries)) return
  const files = new Map<string, NamedEntry['kind']>()
  const directories = new Set<string>()
  for (const { path, kind } of entries) {
    if (kind === 'directory') {
      directories.add(path)
    } else {
      if (files.has(path)) throw refuse('duplicate_entry', path, 'the archive contains it twice')
      files.set(path, kind)
    }
    addParents(path, directories)
  }
  for (const directory of directories) {
    const kind = files.get(directory)
    if (kind !== undefined && kind !== 'directory') throw refuseAbove({ path: directory, kind })
  }
  checkFolding([...directories, ...files.keys()], rules)
}

/**
 * Whether all names differ however they are folded, and no file is also a directory. That is true of almost every
 * archive, and a single set takes a third of the memory that is needed to say what is wrong.
 */
function areAllDistinct(entries: readonly NamedEntry[]): boolean {
  const directories = new Set<string>()
  const keys = new Set<string>()
  const room = createRoom(entries.length)
  let files = 0
  for (const { path, kind } of entries) {
    addParents(path, directories, room)
    if (kind === 'directory') {
      directories.add(path)
    } else {
      files++
      keys.add(fold(path, true, true))
    }
  }
  for (const directory of directories) keys.add(fold(directory, true, true))
  return keys.size === files + directories.size
}

/** Returns the paths that are files and directories in an archive, also the directories that names imply. */
export function placesIn(entries: readonly NamedEntry[]): Set<string> {
  const places = new Set<string>()
  for (const { path, kind } of entries) {
    addParents(path, places)
    if (kind !== 'symlink') places.add(path)
  }
  return places
}

function addParents(path: string, directories: Set<string>, room?: (parent: string, path: string) => void): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const parent = path.slice(0, end)
    if (directories.has(parent)) return
    room?.(parent, path)
    directories.add(parent)
  }
}

/** Counts directories, and refuses (`too_many_directories`) the first one that exceeds the limit. */
function createRoom(entries: number): (parent: string, path: string) => void {
  const found = { directories: 0, characters: 0 }
  return (parent, path) => {
    found.characters += parent.length
    found.directories++
    checkDirectories(found, entries, path)
  }
}

/** Refuses (`too_many_directories`) directories that are too many, or too long, for the number of entries. */
export function checkDirectories(
  { directories, characters }: { directories: number; characters: number },
  entries: number,
  path: string
): void {
  const roomOf = ({ ofEach, beyond, atMost }: typeof maxDirectories): number =>
    Math.min(entries * ofEach + beyond, atMost)
  if (directories <= roomOf(maxDirectories) && characters <= roomOf(maxDirectoryCharacters)) return
  throw refuse(
    'too_many_directories',
    path,
    `too many directories for the ${entries} entries of the archive. Pack fewer levels`
  )
}

/** Returns the refusal of an entry that has other entries below it, although it is no directory. */
export function refuseAbove({ path, kind }: NamedEntry): Refusal {
  if (kind === 'symlink')
    return refuse('written_through_link', path, 'it is a symbolic link, but other entries are below it')
  return refuse('file_and_directory', path, 'the archive contains it as a file and as a directory')
}

/** `directories` includes every parent, so comparing whole paths also finds `A/x` beside `a/y`. */
function checkFolding(paths: string[], rules: NameRules): void {
  const folds = rules.folds()
  const byKey = new Map<string, string>()
  for (const path of paths) {
    const key = fold(path, folds.letterCase, folds.normalForm)
    const other = byKey.get(key)
    if (other !== undefined) {
      throw refuse('duplicate_entry', path, `the target's file system treats it as the same name as "${other}"`)
    }
    byKey.set(key, path)
  }
}

function fold(path: string, letterCase: boolean, normalForm: boolean): string {
  const formed = normalForm && notAscii.test(path) ? path.normalize('NFC') : path
  return letterCase ? formed.toLowerCase() : formed
}

/** Maximum length of a hostile name in a message. */
const maxQuotedLength = 200

/** JSON itself escapes C0. */
const harmful = new RegExp(`[\\u007f-\\u009f\\u2028\\u2029]|${invisibleCharacter.source}|\\p{Cs}`, 'gu')

/** Returns the name of an entry in quotes for a message: short, and without characters that affect a terminal. */
export function quoteName(name: string): string {
  const shown = name.length > maxQuotedLength ? `${name.slice(0, maxQuotedLength)}…` : name
  return JSON.stringify(shown.replace(harmful, '\ufffd'))
}

/** The refusal of an archive whose uncompressed size exceeds the limit (setting `max_extracted_size`). */
export function extractedTooLarge(limitBytes: number): Refusal {
  const limit = limitBytes >= 1024 * 1024 ? `${Math.floor(limitBytes / 1024 / 1024)} MB` : `${limitBytes} bytes`
  return tooLarge('extracted_too_large', `its uncompressed size is more than ${limit} (setting max_extracted_size)`)
}

/** The refusal of an archive with more entries than `most`. */
export function tooManyEntries(count: number, most: number): Refusal {
  return tooLarge('too_many_entries', `it contains ${count} entries, but at most ${most} are allowed`)
}

/** The refusal of an archive that is larger than a limit. */
export function tooLarge(code: string, reason: string): Refusal {
  return new Refusal('too_large', code, `Cannot extract the archive: ${reason}`)
}

/** Returns the 413 for an archive, whether it was received or assembled. */
export function archiveTooLarge(limitBytes: number): Refusal {
  const limit = formatBytes(limitBytes)
  const sentence = `The upload is larger than ${limit}. Make it smaller, or raise the setting max_upload_size`
  return new Refusal('too_large', 'too_large', sentence, { field: 'file' })
}

/** Returns the refusal (`invalid`) of an archive because of one of its entries. */
export function refuse(code: string, name: string, reason: string): Refusal {
  return new Refusal('invalid', code, refusalSentence(name, reason))
}

/** Returns the sentence of a refusal of an archive because of one of its entries. */
export function refusalSentence(name: string, reason: string): string {
  return `Cannot extract the archive: ${quoteName(name)}: ${reason}`
}

/*
 * Checks where the symbolic links of an archive lead. A link may point anywhere within the target, and nowhere else.
 *
 * Checking the text alone is not enough: with `a/b/c -> ../..` (the target itself), the text `a/b/c/..` looks like
 * `a/b` but is the directory above the target. So a link is followed segment by segment, as the kernel would, through
 * the other links of the archive and through links that the target already has.
 *
 * The end of a link depends only on its own path, so each link is followed once, and remembered. The remaining cost is
 * limited over all links together: each lookup in the target costs the length of its path.
 */

/** Maximum number of links in one path, as in Linux. */
const maxLinksFollowed = 40
/** Maximum length of a link's text (PATH_MAX). */
export const maxLinkBytes = 4096
/**
 * Maximum cost of following links, for each link and in addition for all: a lookup in the target costs `lookCost` and
 * the length of the path. A link of a `node_modules` costs about 500. measured: bench/hostile
 */
const maxCostOfEach = 4 * 1024
const maxCostOfAny = 128 * 1024
const lookCost = 64

/** The end of a link, and the number of links on the way, including the link itself. */
interface Led {
  place: string
  followed: number
}

/**
 * Checks the links of an archive. `links` maps the path of each link to its text. `linkInTarget` returns the text of a
 * link that the target has at a path, or null. `check` is called at each step, and throws to abort. Refuses
 * (`invalid`): link_leaves_target, link_loop, empty_link, links_too_long, and characters that are not allowed in names.
 */
export function checkLinks(
  links: ReadonlyMap<string, string>,
  linkInTarget: (path: string) => string | null,
  check: () => void = () => {}
): void {
  const known = new Map<string, Led>()
  let left = links.size * maxCostOfEach + maxCostOfAny
  /** The link of the archive that is being followed, for the refusal. */
  let top = { path: '', text: '' }

  function step(cost: number): void {
    check()
    left -= cost
    if (left < 0)
      throw refuse('links_too_long', top.path, 'its symbolic links take too many steps to follow. Shorten them')
  }

  /** `before` is the number of links that were followed on the way here. */
  function follow(path: string, text: string, before: number): Led {
    if (before >= maxLinksFollowed) throw refuse('link_loop', top.path, 'its symbolic links form a loop')
    if (isAbsolute(text)) throw leaves(top)
    let place = parentOf(path)
    let followed = 1
    for (const segment of text.split('/')) {
      step(1)
      if (segment === '' || segment === '.') continue
      if (segment === '..') {
        if (place === '') throw leaves(top)
        place = parentOf(place)
        continue
      }
      place = place === '' ? segment : `${place}/${segment}`
      step(lookCost + place.length)
      const led = ledFrom(place, before + followed)
      if (led === null) continue
      followed += led.followed
      place = led.place
    }
    return { place, followed }
  }

  /** Returns null if there is no link at the path. */
  function ledFrom(path: string, before: number): Led | null {
    let led = known.get(path)
    if (led === undefined) {
      const text = links.get(path) ?? linkInTarget(path)
      if (text === null) return null
      led = follow(path, text, before)
      known.set(path, led)
    }
    if (before + led.followed > maxLinksFollowed) throw refuse('link_loop', top.path, 'its symbolic links form a loop')
    return led
  }

  for (const [path, text] of links) {
    if (text === '' || text.includes('\0')) throw refuse('empty_link', path, 'it is an empty symbolic link')
    checkCharacters(text, path, 'its link target')
    top = { path, text }
    ledFrom(path, 0)
  }
}

function leaves({ path, text }: { path: string; text: string }): Error {
  return refuse('link_leaves_target', path, `it is a symbolic link to ${quoteName(text)}, outside the target`)
}

function isAbsolute(text: string): boolean {
  return text.startsWith('/') || text.includes('\\') || /^[a-z]:/i.test(text)
}
