/* A directory of a build that changes at random: contents, permissions, times, names and kinds. */
import { chmodSync, lutimesSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { edited } from './patched.js'
import type { Random } from './random.js'

interface SiteEntry {
  /** Null: an empty directory. */
  text: string | null
  isLink: boolean
  mode: number
  seconds: number
}

/** Also one that differs only by case, and one only by the form of Unicode. */
const names = ['a', 'A', 'b', 'ü', 'u\u0308', 'c.txt', 'a.b', 'x', 'y', 'z0']
/** A file that nobody may open is packed like one of an archive without permissions. */
const modes = [0o644, 0o644, 0o755, 0o600, 0o4755, 0o2644, 0o1777, 0o000, 0o111]
const firstSecond = 1_700_000_000

/** A site that `change` changes. It contains at least one file. */
export class ChangingSite {
  readonly directory: string
  readonly #random: Random
  #entries = new Map<string, SiteEntry>()

  constructor(directory: string, random: Random) {
    this.directory = directory
    this.#random = random
    mkdirSync(directory, { recursive: true })
    this.#lay(this.#grown(new Map(), 4 + random.below(20)))
  }

  /** Changes some entries, all of them, or none. */
  change(): void {
    const random = this.#random
    const percent = random.oneOf([0, 5, 20, 20, 100])
    const next = new Map<string, SiteEntry>()
    for (const [path, entry] of this.#entries) {
      if (random.below(100) >= percent) add(next, path, entry)
      else this.#changed(next, path, entry)
    }
    this.#lay(this.#grown(next, percent === 0 ? 0 : random.below(4)))
  }

  #changed(next: Map<string, SiteEntry>, path: string, entry: SiteEntry): void {
    const random = this.#random
    const { text, isLink } = entry
    const how = random.oneOf([
      'rewrite',
      'same size',
      'mode',
      'time',
      'remove',
      'move',
      'copy',
      'move directory',
      'kind',
      'edit',
      'edit'
    ] as const)
    if (how === 'remove') return
    if (how === 'move' || how === 'copy') add(next, this.#path(), entry)
    if (how === 'move') return
    if (how === 'move directory') return this.#moveDirectory(next, path, entry)
    if (how === 'kind') return add(next, random.below(2) === 0 ? path : `${path}/${random.oneOf(names)}`, this.#entry())
    if (how === 'same size' && text !== null && !isLink)
      return add(next, path, { ...entry, text: text.replace(/./, random.oneOf(['p', 'q', 'r'])) })
    if (how === 'edit' && text !== null && !isLink) return add(next, path, { ...entry, text: editedText(random, text) })
    if (how === 'mode') return add(next, path, { ...entry, mode: random.oneOf(modes) })
    if (how === 'time') return add(next, path, { ...entry, seconds: firstSecond + random.below(9) })
    add(next, path, how === 'rewrite' ? this.#entry() : entry)
  }

  /** Moves an entry, and those of its directory that `next` contains. */
  #moveDirectory(next: Map<string, SiteEntry>, path: string, entry: SiteEntry): void {
    const from = path.includes('/') ? path.slice(0, path.lastIndexOf('/') + 1) : ''
    const to = `${this.#random.oneOf(names)}/`
    add(next, to + path.slice(from.length), entry)
    if (from === '') return
    for (const [other, moved] of [...next]) {
      if (!other.startsWith(from)) continue
      next.delete(other)
      add(next, to + other.slice(from.length), moved)
    }
  }

  #grown(entries: Map<string, SiteEntry>, count: number): Map<string, SiteEntry> {
    for (let at = 0; at < count; at++) add(entries, this.#path(), this.#entry())
    add(entries, 'always', { text: 'there', isLink: false, mode: 0o644, seconds: firstSecond })
    return entries
  }

  #path(): string {
    const random = this.#random
    return Array.from({ length: 1 + random.below(3) }, () => random.oneOf(names)).join('/')
  }

  #entry(): SiteEntry {
    const random = this.#random
    const kind = random.below(10)
    const seconds = firstSecond + random.below(9)
    if (kind === 0) return { text: null, isLink: false, mode: 0o755, seconds }
    if (kind === 1) return { text: random.oneOf(['always', './always', 'nowhere']), isLink: true, mode: 0o777, seconds }
    const bytes = Buffer.from(Array.from({ length: 900 }, () => random.below(256)))
    const text = random.oneOf([
      '',
      'one',
      'x'.repeat(5000),
      `${random.below(9)}`,
      `${random.below(1e6)} `.repeat(300),
      bytes.toString('latin1')
    ])
    return { text, isLink: false, mode: random.oneOf(modes), seconds }
  }

  /** Changes the directory, and touches nothing that stays as it is. */
  #lay(next: Map<string, SiteEntry>): void {
    const place = (path: string): string => join(this.directory, path)
    for (const [path, entry] of this.#entries)
      if (next.get(path) !== entry) rmSync(place(path), { recursive: true, force: true })
    for (const [path, entry] of next) if (this.#entries.get(path) !== entry) lay(place(path), entry)
    this.#entries = next
  }
}

function editedText(random: Random, text: string): string {
  return edited(random, Buffer.from(text, 'latin1')).toString('latin1')
}

/** Adds an entry, unless another one is in its way. */
function add(entries: Map<string, SiteEntry>, path: string, entry: SiteEntry): void {
  for (const other of entries.keys())
    if (other !== path && (other.startsWith(`${path}/`) || path.startsWith(`${other}/`))) return
  entries.set(path, entry)
}

function lay(place: string, { text, isLink, mode, seconds }: SiteEntry): void {
  // Directories whose files are gone stay, except in the way of others.
  if (text !== null) rmSync(place, { recursive: true, force: true })
  mkdirSync(text === null ? place : dirname(place), { recursive: true })
  if (text === null) return
  if (isLink) {
    symlinkSync(text, place)
    lutimesSync(place, seconds, seconds)
    return
  }
  writeFileSync(place, text)
  chmodSync(place, mode)
  utimesSync(place, seconds, seconds)
}
