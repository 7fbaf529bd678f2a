import { Refused } from '../server/client.js'

/*
 * Saving a form whose record somebody else may have changed since it was loaded. Fields that only one side has changed
 * need no question; of those that both have changed, the reader chooses.
 */

/** A field that was changed here and elsewhere, to different values. */
export interface Conflict {
  name: string
  mine: unknown
  theirs: unknown
}

/** Which value each conflicting field gets. */
export type Choices = ReadonlyMap<string, 'mine' | 'theirs'>

type Values = Readonly<Record<string, unknown>>

/** What to send so that nobody's change is lost, and where that is to be decided first. */
export function mergeFields({ base, mine, theirs }: { base: Values; mine: Values; theirs: Values }): { changes: Values; conflicts: Conflict[] } {
  const changes: Record<string, unknown> = {}
  const conflicts: Conflict[] = []
  for (const [name, value] of Object.entries(mine)) {
    if (isSame(value, base[name]) || isSame(value, theirs[name])) continue
    if (isSame(theirs[name], base[name])) changes[name] = value
    else conflicts.push({ name, mine: value, theirs: theirs[name] })
  }
  return { changes, conflicts }
}

/** What a form was loaded with, and the tag of that state. */
export interface Loaded<S> {
  values: Values
  tag: string | null
  /** The record itself. */
  state: S
}

export interface Saving<S, R> {
  base: Loaded<S>
  /** What the form has now. */
  mine: Values
  send(changes: Values, tag: string | null): Promise<R>
  /** What the server has now. */
  load(): Promise<Loaded<S>>
  /** The result if the server has all that is wanted already. */
  keep(theirs: S): R
  /** Asks the reader; null: nothing is to be saved. */
  choose(conflicts: Conflict[], theirs: S): Promise<Choices | null>
}

/** Saves, and asks as often as somebody else was faster. Null: the reader does not want to save. */
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
    const kept = merged.conflicts.filter(({ name }) => choices.get(name) === 'mine').map(({ name, mine }) => [name, mine] as const)
    changes = { ...merged.changes, ...Object.fromEntries(kept) }
    if (Object.keys(changes).length === 0) return keep(now.state)
    from = now
  }
}

/** Empty, absent and null mean the same in a form; of lists the order means nothing. */
function isSame(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other)
}

function canonical(value: unknown): string {
  if (value === null || value === undefined) return '""'
  return JSON.stringify(Array.isArray(value) ? value.map(String).sort() : value)
}
