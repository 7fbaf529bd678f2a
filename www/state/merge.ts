import { Refused } from '../server/client.js'

/*
 * Saves a form whose record may have changed since it was loaded. Fields that only one side changed are merged; for
 * fields that both sides changed, the user chooses.
 */

/** A field that both sides changed to different values. */
export interface Conflict {
  name: string
  mine: unknown
  theirs: unknown
}

/** The chosen side of each conflicting field. */
export type Choices = ReadonlyMap<string, 'mine' | 'theirs'>

type Values = Readonly<Record<string, unknown>>

/** Returns the fields to send, and the conflicts that must be decided first. */
export function mergeFields({ base, mine, theirs }: { base: Values; mine: Values; theirs: Values }): {
  changes: Values
  conflicts: Conflict[]
} {
  const changes: Record<string, unknown> = {}
  const conflicts: Conflict[] = []
  for (const [name, value] of Object.entries(mine)) {
    if (isSame(value, base[name]) || isSame(value, theirs[name])) continue
    if (isSame(theirs[name], base[name])) changes[name] = value
    else conflicts.push({ name, mine: value, theirs: theirs[name] })
  }
  return { changes, conflicts }
}

/** The record with which a form was loaded, and the tag of its state. */
export interface Loaded<S> {
  values: Values
  tag: string | null
  /** The record. */
  state: S
}

/** What `saveMerged` needs. */
export interface Saving<S, R> {
  base: Loaded<S>
  /** The current values of the form. */
  mine: Values
  send(changes: Values, tag: string | null): Promise<R>
  /** Loads the current record of the server. */
  load(): Promise<Loaded<S>>
  /** Returns the result if the server already has all values. */
  keep(theirs: S): R
  /** Asks the user. Null cancels saving. */
  choose(conflicts: Conflict[], theirs: S): Promise<Choices | null>
}

/** Saves, and asks again after each conflict. Returns null if the user cancels. */
export async function saveMerged<S, R>({ base, mine, send, load, keep, choose }: Saving<S, R>): Promise<R | null> {
  let changes = mine
  let from = base
  for (;;) {
    try {
      return await send(changes, from.tag)
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'changed_since') throw error
    }
    const now = await load()
    const merged = mergeFields({ base: from.values, mine: changes, theirs: now.values })
    const choices = merged.conflicts.length === 0 ? new Map() : await choose(merged.conflicts, now.state)
    if (choices === null) return null
    const kept = merged.conflicts
      .filter(({ name }) => choices.get(name) === 'mine')
      .map(({ name, mine }) => [name, mine] as const)
    changes = { ...merged.changes, ...Object.fromEntries(kept) }
    if (Object.keys(changes).length === 0) return keep(now.state)
    from = now
  }
}

/** Compares two values. Empty, absent and null are equal in a form, and the order of lists is ignored. */
function isSame(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other)
}

function canonical(value: unknown): string {
  if (value === null || value === undefined) return '""'
  return JSON.stringify(Array.isArray(value) ? value.map(String).sort() : value)
}
