/*
 * The entries of an export of which only the hash is left, and what the log says about them. Nothing proves how old such
 * an entry was, so each statement is held to what is still there, and who verifies sees the ranges:
 *
 *   age        an entry `audit.trimmed` names the first entries of the log, all of them up to the first young one
 *   number     an entry `audit.trimmed` names summaries of failed attempts, of which the newest stay
 *
 * Anything else was not written by svc.
 */
import { entryText, readRanges, type SealedEntry } from './tree.js'

/** Summaries of which a log may have no leaf yet: those of this minute and of the one before a crash. */
const unsealedFailures = 2002
const dayMs = 24 * 60 * 60_000

/** Neighbouring removed entries, and which entry says that they were removed. */
export interface RemovedRange {
  from: number
  to: number
  /** The number of the entry; null: none of the exported ones says so. */
  by: number | null
  /** Its time, and what it says. */
  at: string | null
  says: string | null
}

/** What an entry `audit.trimmed` says. */
interface Statement {
  seq: number
  at: string
  detail: string
  /** Entries up to here were removed as older than `limitMs`; null: summaries of failed attempts were. */
  age: { upTo: number; limitMs: number } | null
  ranges: Array<[from: number, to: number]>
}

/** Creates an empty record. Entries must come in ascending order. */
export function createRemovals({ keepsFailures }: { keepsFailures: number }) {
  const missing: Array<[from: number, to: number]> = []
  const statements: Statement[] = []
  const faults: string[] = []
  let first: { seq: number; at: number } | null = null
  let failures: number[] = []

  /** The newest summary that was removed: so many newer ones must have been in the log. */
  function faultsOfNumber({ to, by }: RemovedRange): string[] {
    const removed = missing.reduce((sum, [a, b]) => sum + Math.max(0, b - Math.max(a - 1, to)), 0)
    const newer = removed + failures.filter(seq => seq > to).length
    if (newer >= keepsFailures - unsealedFailures) return []
    const limit = `at most ${newer} newer ones follow it, and svc keeps ${keepsFailures}`
    return [`Entry ${by} says that entry ${to} was one of too many summaries of failed attempts, but ${limit}`]
  }

  return {
    /** Notes that only the hashes of these entries are left. */
    miss(from: number, to: number): void {
      addRange(missing, from, to)
    },
    /** Notes the text of the first entry that is left. */
    begin(seq: number, text: string): void {
      first = { seq, at: Date.parse(entryOf(text)?.at ?? '') }
    },
    /** Whether the first entry that is left is still unknown. */
    isEmpty: (): boolean => first === null,
    /** Notes a summary of failed attempts. */
    fail(seq: number): void {
      failures.push(seq)
      // Only so many can count.
      if (failures.length > 2 * keepsFailures) failures = failures.slice(-keepsFailures)
    },
    /** Notes an entry that says which others were removed. */
    say(seq: number, text: string): void {
      const statement = readStatement(seq, text)
      if (typeof statement === 'string') faults.push(statement)
      else statements.push(statement)
    },
    /** Returns what is removed, in ascending order, and the faults of the entries that say why. */
    end(): { ranges: RemovedRange[]; faults: string[] } {
      const oldest = statements.reduce<Statement | null>((a, b) => (upTo(b) > upTo(a) ? b : a), null)
      const all = [...faults]
      if (oldest?.age && first !== null) all.push(...faultsOfAge(oldest, oldest.age, first))
      const ranges = explain(missing, { oldest, statements })
      const byNumber = new Set(statements.flatMap(({ seq, age }) => (age === null ? [seq] : [])))
      const last = ranges.filter(({ by }) => by !== null && byNumber.has(by)).at(-1)
      if (last !== undefined) all.push(...faultsOfNumber(last))
      return { ranges, faults: all }
    }
  }
}

/** Adds a range to ascending ones, and joins it with the last one if they are neighbours. */
export function addRange(ranges: Array<[from: number, to: number]>, from: number, to: number): void {
  const last = ranges.at(-1)
  if (last !== undefined && last[1] + 1 === from) last[1] = to
  else ranges.push([from, to])
}

const upTo = (statement: Statement | null): number => statement?.age?.upTo ?? 0

/** Reads an entry `audit.trimmed` exactly as svc writes it; otherwise returns what is wrong. */
function readStatement(seq: number, text: string): Statement | string {
  const entry = entryOf(text)
  const wrong = (why: string): string => `Entry ${seq} says which entries were removed, but ${why}`
  if (entry === null || entry.actor !== 'system') return wrong('svc does not write such an entry')
  const { at, target, detail } = entry
  if (typeof target !== 'string' || typeof detail !== 'string') return wrong('not which')
  const ranges = readRanges(target)
  const numbers = ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0)
  if (ranges.some(([from, to], at) => from > to || to >= seq || from <= (ranges[at - 1]?.[1] ?? 0)))
    return wrong('it names them in another order, or entries after it')
  const old = /^(\d{1,15}) older than (\d{1,5}) days?$/.exec(detail)
  const many = /^(\d{1,15}) summaries of failed attempts$/.exec(detail)
  if (old !== null) {
    const limitMs = Date.parse(at) - Number(old[2]) * dayMs
    if (!/^1-\d+$/.test(target) || ranges.length !== 1)
      return wrong(`only the first entries of a log are removed as too old, and it names ${target}`)
    if (Number.isNaN(limitMs) || Number(old[1]) < 1 || Number(old[1]) > numbers)
      return wrong('its time or its number is impossible')
    return { seq, at, detail, ranges, age: { upTo: numbers, limitMs } }
  }
  if (many === null) return wrong('neither as too old nor as summaries of failed attempts')
  if (Number(many[1]) !== numbers) return wrong(`it names ${numbers}`)
  return { seq, at, detail, ranges, age: null }
}

/** Reads an entry; null unless its text is exactly as svc writes it. */
function entryOf(text: string): SealedEntry | null {
  try {
    const entry = JSON.parse(text) as SealedEntry
    return entryText(entry) === text && typeof entry.at === 'string' ? entry : null
  } catch {
    return null
  }
}

function faultsOfAge(
  { seq, at }: Statement,
  { upTo, limitMs }: { upTo: number; limitMs: number },
  first: { seq: number; at: number }
): string[] {
  const said = `Entry ${seq} says that the entries 1 to ${upTo} were removed as too old`
  if (first.seq <= upTo) return [`${said}, but entry ${first.seq} is still there`]
  // The entries after the next one may be older: the clock may have been set, and summaries are leaves only at their end.
  if (first.seq === upTo + 1 && !(first.at >= limitMs))
    return [`${said}, but the next entry is too old, too, for ${at}: svc removes all of them together`]
  return []
}

/** Cuts ascending ranges of removed entries into those that one statement names. */
function explain(
  missing: ReadonlyArray<[from: number, to: number]>,
  { oldest, statements }: { oldest: Statement | null; statements: readonly Statement[] }
): RemovedRange[] {
  const known = statements.flatMap(by => (by.age === null ? by.ranges.map(range => ({ by, range })) : []))
  if (oldest?.age) known.push({ by: oldest, range: [1, oldest.age.upTo] })
  known.sort((a, b) => a.range[0] - b.range[0])
  let next = 0
  return missing.flatMap(([from, to]) => {
    const pieces: RemovedRange[] = []
    for (let open = from; open <= to; ) {
      while ((known[next]?.range[1] ?? Infinity) < open) next++
      const found = known[next]
      const by = found !== undefined && found.range[0] <= open ? found.by : null
      const end = Math.min(to, by === null ? (found?.range[0] ?? Infinity) - 1 : (found?.range[1] ?? to))
      pieces.push({ from: open, to: end, by: by?.seq ?? null, at: by?.at ?? null, says: by?.detail ?? null })
      open = end + 1
    }
    return pieces
  })
}
